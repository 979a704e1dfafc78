package replay

import (
	"bytes"
	"errors"
	"math"
	"strconv"
)

var errTime = errors.New("the time cannot be read: want 17/May/2015:10:05:03 +0000, RFC 3339, or Unix seconds or milliseconds")

const nanosPerSecond = 1_000_000_000

// A stamper reads times. It remembers the last date, since lines that follow
// each other are nearly always of one day.
type stamper struct {
	date [11]byte // "17/May/2015"
	days int64    // since the Unix epoch
}

// read reads a time in any of the forms that logs use, as Unix nanoseconds. A
// time without a zone is in UTC.
func (s *stamper) read(text []byte) (int64, error) {
	switch {
	case len(text) >= 20 && text[2] == '/':
		return s.readLog(text)
	case len(text) >= 19 && text[4] == '-':
		return readISO(text)
	}
	return readUnix(text)
}

// readLog reads "17/May/2015:10:05:03 +0000", with or without a fraction.
func (s *stamper) readLog(text []byte) (int64, error) {
	if text[11] != ':' {
		return 0, errTime
	}
	if !bytes.Equal(s.date[:], text[:11]) {
		days, ok := logDate(text[:11])
		if !ok {
			return 0, errTime
		}
		copy(s.date[:], text)
		s.days = days
	}
	return readClock(s.days, text[12:])
}

// readISO reads "2015-05-17T10:05:03.123Z" and its kin.
func readISO(text []byte) (int64, error) {
	year, ok1 := digits(text[:4])
	month, ok2 := digits(text[5:7])
	day, ok3 := digits(text[8:10])
	separator := text[10] == 'T' || text[10] == 't' || text[10] == ' '
	if !ok1 || !ok2 || !ok3 || text[7] != '-' || !separator || !validDate(year, month, day) {
		return 0, errTime
	}
	return readClock(daysFromCivil(year, month, day), text[11:])
}

// readClock reads a time of day, a fraction and a zone, of a day.
func readClock(days int64, text []byte) (int64, error) {
	if len(text) < 8 || text[2] != ':' || text[5] != ':' {
		return 0, errTime
	}
	hour, ok1 := digits(text[:2])
	minute, ok2 := digits(text[3:5])
	second, ok3 := digits(text[6:8])
	// A leap second is written as 60.
	if !ok1 || !ok2 || !ok3 || hour > 23 || minute > 59 || second > 60 {
		return 0, errTime
	}
	nanos, rest, ok := fraction(text[8:])
	offset, zoned := zone(rest)
	if !ok || !zoned {
		return 0, errTime
	}
	seconds := days*86400 + hour*3600 + minute*60 + second - offset
	return toNanos(seconds, nanos)
}

// toNanos joins seconds and nanoseconds. Times lie between 1742 and 2198, so
// that the difference of any two, and a window more, fits in 64 bits.
func toNanos(seconds, nanos int64) (int64, error) {
	const most = 7_200_000_000
	if seconds > most || seconds < -most {
		return 0, errTime
	}
	return seconds*nanosPerSecond + nanos, nil
}

// fraction reads ".123" or ",123", if it is there, as nanoseconds.
func fraction(text []byte) (nanos int64, rest []byte, ok bool) {
	if len(text) == 0 || text[0] != '.' && text[0] != ',' {
		return 0, text, true
	}
	scale, n := int64(nanosPerSecond/10), 1
	for ; n < len(text) && text[n] >= '0' && text[n] <= '9'; n++ {
		nanos += int64(text[n]-'0') * scale
		scale /= 10
	}
	return nanos, text[n:], n > 1
}

// zone reads "Z", "+0200", "+02:00" or " +0200" as seconds east of UTC.
func zone(text []byte) (int64, bool) {
	text = bytes.TrimPrefix(text, []byte{' '})
	if len(text) == 0 || len(text) == 1 && (text[0] == 'Z' || text[0] == 'z') {
		return 0, true
	}
	if text[0] != '+' && text[0] != '-' || len(text) < 5 {
		return 0, false
	}
	hour, ok1 := digits(text[1:3])
	minute, ok2 := digits(bytes.TrimPrefix(text[3:], []byte{':'}))
	if !ok1 || !ok2 || len(text) > 6 || len(text) == 6 && text[3] != ':' || hour > 23 || minute > 59 {
		return 0, false
	}
	if text[0] == '-' {
		return -hour*3600 - minute*60, true
	}
	return hour*3600 + minute*60, true
}

// digits reads an unsigned number that has nothing but digits.
func digits(text []byte) (int64, bool) {
	n := int64(0)
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

var months = [12]string{"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"}

// logDate reads "17/May/2015" as days since the Unix epoch.
func logDate(text []byte) (int64, bool) {
	day, ok1 := digits(text[:2])
	year, ok2 := digits(text[7:11])
	if !ok1 || !ok2 || text[2] != '/' || text[6] != '/' {
		return 0, false
	}
	for i, name := range months {
		if month := int64(i + 1); string(text[3:6]) == name {
			return daysFromCivil(year, month, day), validDate(year, month, day)
		}
	}
	return 0, false
}

func validDate(year, month, day int64) bool {
	if month < 1 || month > 12 || day < 1 {
		return false
	}
	return day <= daysFromCivil(year+month/12, month%12+1, 1)-daysFromCivil(year, month, 1)
}

// daysFromCivil counts the days from 1970-01-01 in the Gregorian calendar. The
// year is taken to begin in March, so that a leap day ends it and the months'
// lengths follow one line.
func daysFromCivil(year, month, day int64) int64 {
	month -= 3
	if month < 0 {
		month += 12
		year--
	}
	// Years are at least -1 here: 400 more keep the divisions positive.
	year += 400
	dayOfYear := (153*month+2)/5 + day - 1
	const daysToEpoch = 719468 + 146097
	return year*365 + year/4 - year/100 + year/400 + dayOfYear - daysToEpoch
}

// readUnix reads seconds, milliseconds, microseconds or nanoseconds since the
// Unix epoch, told apart by their size: seconds reach to the year 5138, and
// milliseconds begin in 1973.
func readUnix(text []byte) (int64, error) {
	whole, rest := text, []byte(nil)
	if i := bytes.IndexByte(text, '.'); i >= 0 {
		whole, rest = text[:i], text[i:]
	}
	n, err := strconv.ParseInt(string(whole), 10, 64)
	if err != nil || bytes.IndexByte(whole, '+') >= 0 {
		return readFloat(text)
	}
	nanos, rest, ok := fraction(rest)
	if !ok || len(rest) > 0 || n < 0 {
		return readFloat(text)
	}
	switch {
	case n < 1e11:
		return toNanos(n, nanos)
	case n < 1e14:
		return toNanos(n/1e3, n%1e3*1e6+nanos/1e3)
	case n < 1e17:
		return toNanos(n/1e6, n%1e6*1e3+nanos/1e6)
	}
	return toNanos(n/1e9, n%1e9)
}

// readFloat reads what is left of numbers: an exponent, a negative time.
func readFloat(text []byte) (int64, error) {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.IsNaN(f) || math.Abs(f) >= 1e11 {
		return 0, errTime
	}
	seconds := math.Floor(f)
	return toNanos(int64(seconds), int64((f-seconds)*nanosPerSecond))
}
