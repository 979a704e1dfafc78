package redis

import "github.com/sluice-limiter/sluice"

// crcTable is that of CRC-16/XMODEM, which Redis Cluster hashes keys by.
var crcTable = makeCRC()

func makeCRC() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}

// slotCount is how many slots a cluster has.
const slotCount = 16384

// A slotHash finds a key's slot while the key passes piece by piece: of what
// stands between the first opening brace and the next closing one, or of all if
// there is nothing.
type slotHash struct {
	all, tag uint16
	state    uint8
}

// The states of a slotHash: what of a tag was seen.
const (
	noTag    = iota
	tagOpen  // nothing between the braces yet
	inTag    // something
	tagEmpty // the braces hold nothing: there is no tag
	tagDone
)

// add takes the next piece of the key.
func (h *slotHash) add(s string) { addTo(h, s) }

func addTo[T string | []byte](h *slotHash, s T) {
	if h.state == tagDone {
		return
	}
	all, i := h.all, 0
	for ; i < len(s) && (h.state == noTag || h.state == tagEmpty); i++ {
		all = all<<8 ^ crcTable[byte(all>>8)^s[i]]
		if s[i] == '{' && h.state == noTag {
			h.state = tagOpen
		}
	}
	h.all = all
	for ; i < len(s); i++ {
		c := s[i]
		h.all = h.all<<8 ^ crcTable[byte(h.all>>8)^c]
		switch {
		case h.state == tagEmpty:
		case c != '}':
			h.state = inTag
			h.tag = h.tag<<8 ^ crcTable[byte(h.tag>>8)^c]
		case h.state == inTag:
			h.state = tagDone
			return
		default:
			h.state = tagEmpty
		}
	}
}

func (h *slotHash) slot() int {
	if h.state == tagDone {
		return int(h.tag % slotCount)
	}
	return int(h.all % slotCount)
}

// slotOf returns the slot of the name that appendKey writes, without writing
// it.
func slotOf(prefix string, c *sluice.Charge) int {
	var h slotHash
	h.add(prefix)
	h.add(":")
	if c.Tag != "" {
		h.add("{")
		h.addTag(c.Tag)
		h.add("}")
	}
	if h.state == tagDone {
		return h.slot()
	}
	var kind [64]byte
	addTo(&h, appendKind(kind[:0], &c.Limit))
	h.add(":")
	h.add(c.Key)
	return h.slot()
}

// addTag takes a tag as appendTag writes it.
func (h *slotHash) addTag(tag string) {
	from := 0
	for i := range len(tag) {
		escaped := ""
		switch tag[i] {
		case '%':
			escaped = "%25"
		case '}':
			escaped = "%7D"
		default:
			continue
		}
		h.add(tag[from:i])
		h.add(escaped)
		from = i + 1
	}
	h.add(tag[from:])
}
