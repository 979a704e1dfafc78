package hot

// A summary counts the most frequent keys of a stream in fixed memory: the Space
// Saving algorithm of Metwally, Agrawal and El Abbadi, "Efficient Computation of
// Frequent and Top-k Elements in Data Streams", ICDT 2005. A key that is not here
// takes the place of the least frequent one, and its weight too, so that no key's
// weight is ever less than its true count, and each that is more than the m-th
// part of the stream is among the m kept. In the place of the paper's list of
// buckets it keeps a heap, since weights grow by more than one at a time.
type summary struct {
	max     int
	entries []entry
	heap    []int32 // numbers of entries, the least weight first
	table   []int32 // by hash, open addressing: an entry's number and one; 0: free
}

// An entry is one key.
type entry struct {
	hash   uint64 // stands for the key: two keys with one are as good as impossible
	key    []byte
	weight uint64
	at     int32 // where in the heap
	counts
}

func newSummary(max int) *summary { return &summary{max: max} }

// find returns the entry of a key, nil if it is not here. It holds until the next
// hit.
func (s *summary) find(hash uint64) *entry {
	if len(s.table) == 0 {
		return nil
	}
	if i := s.table[s.slot(hash)]; i > 0 {
		return &s.entries[i-1]
	}
	return nil
}

// hit counts a key and returns its entry, whose own counts are the caller's to
// keep: they begin anew with a key that takes another's place.
func (s *summary) hit(hash uint64, key string, weight uint64) *entry {
	e := s.find(hash)
	if e == nil {
		e = s.admit(hash, key)
	}
	e.weight += weight
	s.sink(e.at)
	return e
}

// admit makes room for a key that is not here. Memory is asked for only until the
// summary is full and has seen the longest keys.
func (s *summary) admit(hash uint64, key string) *entry {
	var e *entry
	if n := len(s.entries); n < s.max {
		e = s.grow(n)
	} else {
		e = &s.entries[s.heap[0]]
		s.remove(e.hash)
	}
	e.hash, e.counts = hash, counts{}
	e.key = append(e.key[:0], key[:min(len(key), maxKey)]...)
	s.table[s.slot(hash)] = s.heap[e.at] + 1
	return e
}

// grow adds an entry without weight, which is then the least.
func (s *summary) grow(n int) *entry {
	if n < cap(s.entries) {
		s.entries = s.entries[:n+1] // perhaps one of before, with memory for its key
	} else {
		s.entries = append(s.entries, entry{})
	}
	if 4*len(s.entries) > len(s.table) {
		s.rehash(max(64, 2*len(s.table)))
	}
	e := &s.entries[n]
	e.weight, e.at = 0, int32(n)
	s.heap = append(s.heap, int32(n))
	s.rise(int32(n))
	return e
}

// reset forgets all keys and keeps the memory.
func (s *summary) reset() {
	s.entries, s.heap = s.entries[:0], s.heap[:0]
	clear(s.table)
}

// rehash makes a table, of a power of two, of all entries but the last, which is
// not in it yet.
func (s *summary) rehash(size int) {
	s.table = make([]int32, size)
	for i := range s.entries[:len(s.entries)-1] {
		s.table[s.slot(s.entries[i].hash)] = int32(i) + 1
	}
}

// slot returns where in the table a hash is, or where it would be.
func (s *summary) slot(hash uint64) int {
	mask := len(s.table) - 1
	for at := int(hash) & mask; ; at = (at + 1) & mask {
		if i := s.table[at]; i == 0 || s.entries[i-1].hash == hash {
			return at
		}
	}
}

// remove takes a hash out of the table and closes the gap, so that what stands
// behind it is still found.
func (s *summary) remove(hash uint64) {
	mask := len(s.table) - 1
	gap := s.slot(hash)
	s.table[gap] = 0
	for at := (gap + 1) & mask; s.table[at] != 0; at = (at + 1) & mask {
		home := int(s.entries[s.table[at]-1].hash) & mask
		if (at-home)&mask >= (at-gap)&mask {
			s.table[gap], s.table[at] = s.table[at], 0
			gap = at
		}
	}
}

func (s *summary) weight(at int32) uint64 { return s.entries[s.heap[at]].weight }

func (s *summary) swap(a, b int32) {
	s.heap[a], s.heap[b] = s.heap[b], s.heap[a]
	s.entries[s.heap[a]].at, s.entries[s.heap[b]].at = a, b
}

// sink moves an entry whose weight grew away from the least.
func (s *summary) sink(at int32) {
	for {
		least := at
		for child := 2*at + 1; child <= 2*at+2 && int(child) < len(s.heap); child++ {
			if s.weight(child) < s.weight(least) {
				least = child
			}
		}
		if least == at {
			return
		}
		s.swap(at, least)
		at = least
	}
}

// rise moves an entry whose weight is little towards the least.
func (s *summary) rise(at int32) {
	for at > 0 && s.weight(at) < s.weight((at-1)/2) {
		s.swap(at, (at-1)/2)
		at = (at - 1) / 2
	}
}
