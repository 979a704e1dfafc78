package guard

import "github.com/sluice-limiter/sluice"

// both asks the local share first, and the store for what that grants. It is how
// an instance whose breaker has closed decides until all others have had time to
// settle: the store may not know yet what they admitted, and would give it away
// again; the shares together still hold the limit. What the store refuses stays
// taken from the share, which admits a little less for that time.
func (s *Store) both(b *budget, n *node, dst []sluice.Decision, charges []sluice.Charge) ([]sluice.Decision, error) {
	out, err := s.decide(dst, charges, n, true)
	if err != nil {
		return dst, err
	}
	shares := out[len(dst):]
	asked := make([]sluice.Charge, 0, len(charges))
	index := make([]int, 0, len(charges))
	for i := range charges {
		c := charges[i]
		if c.N > 0 && shares[i].Granted == 0 {
			s.countFallback(&c)
			continue // its group is refused here
		}
		c.N = shares[i].Granted
		asked = append(asked, c)
		index = append(index, i)
	}
	if len(asked) == 0 {
		return out, nil
	}
	decisions, err := s.askNext(b, n, nil, asked)
	if err != nil {
		return dst, err
	}
	for k, i := range index {
		wait := shares[i].RetryAfter
		shares[i] = decisions[k]
		if shares[i].Granted > 0 {
			shares[i].RetryAfter = max(shares[i].RetryAfter, wait) // of a part
		}
	}
	return out, nil
}
