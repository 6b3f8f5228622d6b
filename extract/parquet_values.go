package extract

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
)

// decimalBytes is the size of a decimal of more than 18 digits.
const decimalBytes = 16

// int128 is a number in two's complement.
type int128 struct{ hi, lo uint64 }

// times10 returns 10n+d.
func (n int128) times10(d byte) int128 {
	hi, lo := bits.Mul64(n.lo, 10)
	lo, carry := bits.Add64(lo, uint64(d), 0)
	return int128{n.hi*10 + hi + carry, lo}
}

func (n int128) negated() int128 {
	lo, borrow := bits.Sub64(0, n.lo, 0)
	hi, _ := bits.Sub64(0, n.hi, borrow)
	return int128{hi, lo}
}

// parseUnscaled reads a decimal, quoted or not, as an integer of units of 10^-scale.
func parseUnscaled(cell []byte, precision, scale int) (int128, string) {
	text := cell
	if isString(cell) {
		text = cell[1 : len(cell)-1]
	}
	if len(text) == 0 {
		return int128{}, notOfType
	}
	negative := text[0] == '-'
	if negative {
		text = text[1:]
	}
	whole, fraction, point := bytes.Cut(text, []byte{'.'})
	if !allDigits(whole) || point && !allDigits(fraction) {
		if string(text) == "NaN" || string(text) == "Infinity" {
			return int128{}, notFinite
		}
		return int128{}, notOfType
	}
	if len(fraction) > scale {
		if len(bytes.Trim(fraction[scale:], "0")) > 0 {
			return int128{}, notADecimal
		}
		fraction = fraction[:scale]
	}
	whole = bytes.TrimLeft(whole, "0")
	if len(whole)+scale > precision && (len(whole) > 0 || significant(fraction, scale) > precision) {
		return int128{}, notADecimal
	}
	var n int128
	for _, c := range whole {
		n = n.times10(c - '0')
	}
	for _, c := range fraction {
		n = n.times10(c - '0')
	}
	for range scale - len(fraction) {
		n = n.times10(0)
	}
	if negative {
		n = n.negated()
	}
	return n, ""
}

// significant counts the digits of a fraction without its leading zeros, filled up to scale.
func significant(fraction []byte, scale int) int {
	zeros := len(fraction) - len(bytes.TrimLeft(fraction, "0"))
	return scale - zeros
}

const (
	secondsOfDay = 24 * 60 * 60
	microsOfSec  = 1_000_000
)

// clock reads dates and times in the forms of the value rules, piece by piece.
type clock struct {
	text []byte
	bad  bool
}

// number reads digits, at least as many as least and at most as many as most.
func (c *clock) number(least, most int) int {
	n, i := 0, 0
	for i < len(c.text) && i < most && c.text[i] >= '0' && c.text[i] <= '9' {
		n = n*10 + int(c.text[i]-'0')
		i++
	}
	c.bad = c.bad || i < least
	c.text = c.text[i:]
	return n
}

// skip reads the byte b, if it is there.
func (c *clock) skip(b byte) bool {
	if len(c.text) == 0 || c.text[0] != b {
		return false
	}
	c.text = c.text[1:]
	return true
}

func (c *clock) expect(b byte) { c.bad = !c.skip(b) || c.bad }

// date reads YYYY-MM-DD and returns its number of days since 1970. before says that the year is before Christ.
func (c *clock) date(before bool) int64 {
	year := c.number(4, 7)
	c.expect('-')
	month := c.number(2, 2)
	c.expect('-')
	day := c.number(2, 2)
	if before {
		c.bad = c.bad || year == 0
		year = 1 - year
	} else if year == 0 {
		c.bad = true
	}
	if c.bad || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) {
		c.bad = true
		return 0
	}
	return daysSince1970(year, month, day)
}

// time reads HH:MM:SS[.ffffff] and returns it in microseconds; fine says that the fraction has more digits than that.
func (c *clock) time() (micros int64, fine bool) {
	hour := c.number(2, 2)
	c.expect(':')
	minute := c.number(2, 2)
	c.expect(':')
	second := c.number(2, 2)
	c.bad = c.bad || hour > 23 || minute > 59 || second > 59
	fraction := 0
	if c.skip('.') {
		digits := len(c.text)
		fraction = c.number(1, 6)
		digits -= len(c.text)
		for ; digits < 6; digits++ {
			fraction *= 10
		}
		for len(c.text) > 0 && c.text[0] >= '0' && c.text[0] <= '9' {
			fine = fine || c.text[0] != '0'
			c.text = c.text[1:]
		}
	}
	return int64((hour*60+minute)*60+second)*microsOfSec + int64(fraction), fine
}

// offset reads Z, +HH:MM or +HH:MM:SS and returns it in seconds.
func (c *clock) offset() int {
	if c.skip('Z') {
		return 0
	}
	sign := 1
	if c.skip('-') {
		sign = -1
	} else {
		c.expect('+')
	}
	seconds := c.number(2, 2) * 3600
	c.expect(':')
	seconds += c.number(2, 2) * 60
	if c.skip(':') {
		seconds += c.number(2, 2)
	}
	return sign * seconds
}

// ended reports whether everything was read and right.
func (c *clock) ended() bool { return !c.bad && len(c.text) == 0 }

// daysSince1970 counts in the Gregorian calendar, which is taken as valid for all years; the year 0 is 1 BC.
func daysSince1970(year, month, day int) int64 {
	const (
		ofEra     = 146_097 // 400 years
		toEpoch   = 719_468 // from the first of March of the year 0
		marchYear = 3
	)
	if month < marchYear {
		year, month = year-1, month+12
	}
	era := floorDiv(year, 400)
	ofYear := (153*(month-marchYear) + 2) / 5
	y := year - era*400
	return int64(era)*ofEra + int64(y*365+y/4-y/100+ofYear+day-1) - toEpoch
}

func floorDiv(a, b int) int {
	if a < 0 {
		return (a - b + 1) / b
	}
	return a / b
}

func daysIn(year, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// calendar returns the text of a temporal cell and whether it is before Christ.
func calendar(cell []byte) (text []byte, before, ok bool) {
	if !isString(cell) {
		return nil, false, false
	}
	text, before = bytes.CutSuffix(cell[1:len(cell)-1], []byte(" BC"))
	return text, before, true
}

func appendDays(c *parquetColumn, cell []byte) string {
	text, before, ok := calendar(cell)
	if !ok {
		return notOfType
	}
	k := clock{text: text}
	days := k.date(before)
	switch {
	case !k.ended():
		return notADate
	case days < math.MinInt32 || days > math.MaxInt32:
		return outOfRange
	}
	c.values = binary.LittleEndian.AppendUint32(c.values, uint32(int32(days))) // #nosec G115 -- checked
	return ""
}

func appendTime(c *parquetColumn, cell []byte) string {
	if !isString(cell) {
		return notOfType
	}
	k := clock{text: cell[1 : len(cell)-1]}
	micros, fine := k.time()
	switch {
	case !k.ended():
		return "the value is not a time of day"
	case fine:
		return tooPrecise
	}
	c.values = binary.LittleEndian.AppendUint64(c.values, uint64(micros)) // #nosec G115 -- not negative
	return ""
}

// appendTimestamp takes instants, which have an offset, or wall clock times, which have none.
func appendTimestamp(instant bool) func(*parquetColumn, []byte) string {
	return func(c *parquetColumn, cell []byte) string {
		text, before, ok := calendar(cell)
		if !ok {
			return notOfType
		}
		k := clock{text: text}
		days := k.date(before)
		k.expect('T')
		micros, fine := k.time()
		if instant {
			micros -= int64(k.offset()) * microsOfSec
		}
		switch {
		case !k.ended():
			return notADate
		case fine:
			return tooPrecise
		}
		const most = math.MaxInt64/(secondsOfDay*microsOfSec) - 2 // in days
		if days > most || days < -most {
			return outOfRange
		}
		micros += days * secondsOfDay * microsOfSec
		c.values = binary.LittleEndian.AppendUint64(c.values, uint64(micros)) // #nosec G115 -- two's complement
		return ""
	}
}
