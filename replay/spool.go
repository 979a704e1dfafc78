package replay

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"
)

// A spool keeps a sequence of requests, a key and a time each, so that they can
// be gone through again: in memory as far as it is small, else in a temporary
// file of twelve bytes a request.
type spool struct {
	buf  []byte
	file *os.File
}

const (
	recordBytes = 12
	// spoolBytes is how much is kept in memory.
	spoolBytes = recordBytes << 20
)

func (s *spool) add(key int32, at int64) error {
	s.buf = binary.LittleEndian.AppendUint32(s.buf, uint32(key))
	s.buf = binary.LittleEndian.AppendUint64(s.buf, uint64(at))
	if len(s.buf) < spoolBytes {
		return nil
	}
	if s.file == nil {
		file, err := os.CreateTemp("", "sluice-replay-")
		if err != nil {
			return err
		}
		s.file = file
	}
	_, err := s.file.Write(s.buf)
	s.buf = s.buf[:0]
	return err
}

// each goes through the requests in the order in which they were added.
func (s *spool) each(visit func(key int32, at int64)) error {
	if s.file != nil {
		if _, err := s.file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		var record [recordBytes]byte
		for r := bufio.NewReaderSize(s.file, readBytes); ; {
			_, err := io.ReadFull(r, record[:])
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			visitRecord(record[:], visit)
		}
	}
	for i := 0; i < len(s.buf); i += recordBytes {
		visitRecord(s.buf[i:], visit)
	}
	return nil
}

func visitRecord(record []byte, visit func(key int32, at int64)) {
	visit(int32(binary.LittleEndian.Uint32(record)), int64(binary.LittleEndian.Uint64(record[4:])))
}

// close removes the file.
func (s *spool) close() error {
	if s.file == nil {
		return nil
	}
	return errors.Join(s.file.Close(), os.Remove(s.file.Name()))
}
