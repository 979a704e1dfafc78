package sluice

import "time"

// Part returns the limit of counter i, from 0, of the n over which a key is
// spread; the parts of a valid limit together admit no more than it does. It is
// not valid, as [Limit.Validate] tells, where there are more counters than
// tokens, or no such counter.
//
// Tokens and bursts that n does not divide go to the first counters. A token
// bucket's rate is divided by stretching its period, so that fractions of a
// token are kept: of 5/s in 2 parts each has 5/2s.
func (l Limit) Part(i, n int) Limit {
	parts := int64(n)
	if i < 0 || i >= n || l.Capacity() < parts {
		return Limit{}
	}
	share := l.Capacity() / parts
	if int64(i) < l.Capacity()%parts {
		share++
	}
	if l.Algorithm != TokenBucket {
		l.Tokens, l.Burst = share, 0
		return l
	}
	l.Burst = share
	l.Tokens, l.Per = stretch(l.Tokens, l.Per, parts)
	return l
}

// stretch returns the n-th part of a rate in lowest terms. Where that has too
// long a period, it is the time of one token, rounded up to a microsecond, which
// costs less than 0.02%.
func stretch(tokens int64, per time.Duration, n int64) (int64, time.Duration) {
	common := gcd(tokens, n)
	tokens, n = tokens/common, n/common
	micros := per.Microseconds() * n // at most 2^45 * 1000
	if longest := MaxPer.Microseconds(); micros > longest {
		// One more than the longest is still not valid, and does not overflow.
		tokens, micros = 1, min(ceilDiv(micros, tokens), longest+1)
	}
	return tokens, time.Duration(micros) * time.Microsecond
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
