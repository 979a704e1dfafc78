//go:build !race

package guard

const race = false
