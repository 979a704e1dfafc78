package sluice

import "fmt"

// A FailureMode says what a limit answers while the store does not.
type FailureMode uint8

// The failure modes; the zero value is local.
const (
	FailLocal FailureMode = iota // this instance's share, counted in memory
	FailAllow                    // pass
	FailDeny                     // refuse until the store answers
)

var failureNames = [...]string{"local", "allow", "deny"}

// String returns the name that configuration uses.
func (m FailureMode) String() string {
	if int(m) < len(failureNames) {
		return failureNames[m]
	}
	return fmt.Sprintf("failure mode(%d)", uint8(m))
}

// ParseFailureMode reads local, allow or deny.
func ParseFailureMode(s string) (FailureMode, error) {
	for m, name := range failureNames {
		if s == name {
			return FailureMode(m), nil
		}
	}
	return 0, fmt.Errorf("unknown mode %q: want local, allow or deny", s)
}
