package metrics

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"syscall"

	"github.com/sluice-limiter/sluice"
	"github.com/sluice-limiter/sluice/policy"
)

// A kind says in one word why there was no answer. The set is closed: no text
// of an error becomes a label.
type kind uint8

const (
	kindTimeout  kind = iota // the time budget ran out
	kindRefused              // nothing listens there
	kindLost                 // a connection broke, or could not be made
	kindScript               // the server answered with an error
	kindCanceled             // the caller went away
	kindCost                 // the question makes no sense: the caller's mistake
	kindOther
	kinds
)

var kindNames = [kinds]string{"timeout", "connection_refused", "connection_lost", "script", "canceled", "cost", "other"}

// kindsHelp explains the label in the help of each metric that has it.
const kindsHelp = "Kinds: timeout (no answer in time), connection_refused (nothing listens), connection_lost, " +
	"script (the server answered with an error, such as out of memory or loading), canceled (the caller went away), " +
	"cost (the caller asked for something that makes no sense or can never pass), other."

// A reply is an error that a Redis server sent, as clients mark it: the server
// was reached and ran, or refused to run, the script.
type reply interface {
	error
	IsNoScript() bool
}

// A classifier knows the errors by which stores say that they are away.
type classifier struct{ away []error }

// kindOf returns the kind of an error. What the caller did comes before what
// the store did, since both may be in one chain.
func (c classifier) kindOf(err error) kind {
	switch {
	case errors.Is(err, sluice.ErrCost), errors.Is(err, sluice.ErrCharge):
		return kindCost
	case errors.Is(err, context.Canceled):
		return kindCanceled
	}
	if _, ok := errors.AsType[*policy.CostError](err); ok {
		return kindCost
	}
	if _, ok := errors.AsType[reply](err); ok {
		return kindScript
	}
	return c.networkKind(err)
}

// networkKind returns the kind of an error on the way to the store.
func (c classifier) networkKind(err error) kind {
	// A context's deadline is a net.Error too.
	failure, isNetwork := errors.AsType[net.Error](err)
	switch {
	case isNetwork && failure.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return kindTimeout
	case errors.Is(err, syscall.ECONNREFUSED):
		return kindRefused
	case isNetwork, errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		slices.ContainsFunc(c.away, func(away error) bool { return errors.Is(err, away) }):
		return kindLost
	}
	return kindOther
}
