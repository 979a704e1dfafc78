// Package httplimit stands a limiter before the handlers of a net/http server:
// it finds out who asks ([Addresses], [Identity]), has a [policy.Engine]
// decide, and answers those who are over a limit with 429, a truthful
// Retry-After and a problem document (RFC 9457).
//
// [PerIP] is the short way in, [New] the one for limits read from a file. Both
// return a [Handler], whose [Handler.Wrap] is the middleware. It does not wrap
// the ResponseWriter: streaming, WebSocket upgrades and ResponseController work
// as they do without it.
package httplimit
