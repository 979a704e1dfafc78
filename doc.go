// Package sluice decides whether a request may pass.
//
// The package holds the vocabulary of rate limiting ([Limit], [Charge],
// [Decision], [Store]) and its algorithms as pure functions of state, limit,
// time and amount ([Meter], [Decide]). They are the specification: every store,
// in this process or on a server, gives the answers that they give.
//
// Most programs need three names: a store such as store/memory, a [Limit] and a
// [Limiter] over both. Middleware for net/http is in httplimit; limits for many
// tenants and routes, read from a file, are in policy.
package sluice
