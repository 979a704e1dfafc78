// Package replay reads access logs against a policy and says what the policy
// would have done: [Run] decides every request of the logs in the order of
// their times, by the same engine that a gateway uses, over a store whose clock
// is the log's. [Suggest] turns the question round and proposes limits.
//
// Logs are in Apache's common or combined format, which is nginx's combined
// format too, or one JSON object a line; the format is told apart line by line.
// A line that cannot be read is counted and shown, and is never an error.
// Memory does not grow with the length of the logs.
package replay
