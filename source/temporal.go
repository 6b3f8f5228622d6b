package source

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	maxFraction   = 9
	secondsPerDay = 24 * 60 * 60
	maxOffset     = 18 * 60 * 60 // seconds; beyond what any zone has had
	maxWideHours  = 838          // of MySQL's TIME
)

// scanner reads one value from the left. Its methods report whether they found what they look for.
type scanner struct {
	rest       string
	yearDigits int  // most of a year; 0: six
	bc         bool // years count backwards from 1 BC
}

// The words of years before Christ, and the digits of the last year that any database has.
const (
	eraBC          = " BC"
	wideYearDigits = 7
)

// newDayScanner reads what begins with a day. Wide columns also have years before Christ, as " BC" at the end.
func newDayScanner(s string, wide bool) scanner {
	if !wide {
		return scanner{rest: s}
	}
	rest, bc := strings.CutSuffix(s, eraBC)
	return scanner{rest: rest, yearDigits: wideYearDigits, bc: bc}
}

func (s *scanner) char(oneOf string) bool {
	if s.rest == "" || !strings.Contains(oneOf, s.rest[:1]) {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

// number reads between least and most digits.
func (s *scanner) number(least, most int) (int, bool) {
	n := 0
	for n < len(s.rest) && n < most && s.rest[n] >= '0' && s.rest[n] <= '9' {
		n++
	}
	if n < least {
		return 0, false
	}
	v, err := strconv.Atoi(s.rest[:n])
	s.rest = s.rest[n:]
	return v, err == nil
}

// day reads YYYY-MM-DD, a year of up to yearDigits digits, and checks that the day exists.
func (s *scanner) day() (time.Time, bool) {
	y, ok := s.number(4, cmp.Or(s.yearDigits, 6))
	if !ok || y == 0 || !s.char("-") {
		return time.Time{}, false
	}
	if s.bc {
		y = 1 - y
	}
	m, ok := s.number(2, 2)
	if !ok || !s.char("-") {
		return time.Time{}, false
	}
	d, ok := s.number(2, 2)
	if !ok {
		return time.Time{}, false
	}
	t := time.Date(y, time.Month(m), d, 0, 0, 0, 0, time.UTC)
	return t, t.Year() == y && t.Month() == time.Month(m) && t.Day() == d
}

// clock reads HH:MM[:SS[.fraction]] with an hour of up to hourDigits digits.
func (s *scanner) clock(hourDigits int) (time.Duration, bool) {
	h, ok := s.number(2, hourDigits)
	if !ok || !s.char(":") {
		return 0, false
	}
	m, ok := s.number(2, 2)
	if !ok || m > 59 {
		return 0, false
	}
	d := time.Duration(h)*time.Hour + time.Duration(m)*time.Minute
	if !s.char(":") {
		return d, true
	}
	sec, ok := s.number(2, 2)
	if !ok || sec > 59 {
		return 0, false
	}
	d += time.Duration(sec) * time.Second
	if !s.char(".") {
		return d, true
	}
	before := len(s.rest)
	f, ok := s.number(1, maxFraction)
	for range maxFraction - (before - len(s.rest)) {
		f *= 10
	}
	return d + time.Duration(f), ok
}

// offset reads Z, ±HH, ±HHMM or ±HH:MM, in seconds east of UTC.
func (s *scanner) offset() (int, bool) {
	if s.char("Zz") {
		return 0, true
	}
	sign := 1
	if s.char("-") {
		sign = -1
	} else if !s.char("+") {
		return 0, false
	}
	h, ok := s.number(2, 2)
	if !ok {
		return 0, false
	}
	m := 0
	if s.char(":") || s.rest != "" {
		if m, ok = s.number(2, 2); !ok || m > 59 {
			return 0, false
		}
	}
	seconds := h*60*60 + m*60
	return sign * seconds, seconds <= maxOffset
}

// fits reports whether the column can tell the fraction of d apart.
func (c *Column) fits(d time.Duration) bool {
	unit := time.Duration(1)
	if c.Fraction > 0 {
		for range maxFraction - c.Fraction {
			unit *= 10
		}
	}
	return d%unit == 0
}

func convertDate(c *Column, s string) (Operand, bool) {
	if isInfinity(s) {
		return Operand{Text: s}, c.Wide
	}
	sc := newDayScanner(s, c.Wide)
	day, ok := sc.day()
	return Operand{Text: formatDay(day) + era(day)}, ok && sc.rest == ""
}

func isInfinity(s string) bool { return s == "infinity" || s == "-infinity" }

// convertTimestamp makes a time in UTC of s, or a day if it has no time.
func convertTimestamp(c *Column, s string) (Operand, bool) {
	if isInfinity(s) {
		return Operand{Text: s}, c.Wide
	}
	sc := newDayScanner(s, c.Wide)
	day, ok := sc.day()
	if !ok {
		return Operand{}, false
	}
	if sc.rest == "" {
		return Operand{Text: formatDay(day) + era(day), DayOnly: true}, true
	}
	if !sc.char("T ") {
		return Operand{}, false
	}
	clock, ok := sc.clock(2)
	if !ok || clock >= secondsPerDay*time.Second || !c.fits(clock) {
		return Operand{}, false
	}
	t := day.Add(clock)
	zone := ""
	if c.Family == FamilyTimestampTZ {
		zone = "Z"
		if sc.rest != "" {
			offset, isOffset := sc.offset()
			if !isOffset {
				return Operand{}, false
			}
			t = t.Add(-time.Duration(offset) * time.Second)
		}
	}
	text := formatDay(t) + t.Format("T15:04:05.999999999") + zone + era(t)
	return Operand{Text: text}, sc.rest == "" && (t.Year() > 0 || c.Wide)
}

func convertTime(c *Column, s string) (Operand, bool) {
	sc := scanner{rest: s}
	sign, hourDigits := "", 2
	if c.Wide {
		hourDigits = 3
		if sc.char("-") {
			sign = "-"
		}
	}
	clock, ok := sc.clock(hourDigits)
	if !ok || sc.rest != "" || !c.fits(clock) || !withinTime(c, clock) {
		return Operand{}, false
	}
	return Operand{Text: sign + formatClock(clock)}, true
}

// withinTime admits 24:00:00, which some databases have as the end of a day.
func withinTime(c *Column, d time.Duration) bool {
	if c.Wide {
		return d < (maxWideHours+1)*time.Hour
	}
	return d <= 24*time.Hour
}

func convertTimeTZ(c *Column, s string) (Operand, bool) {
	sc := scanner{rest: s}
	clock, ok := sc.clock(2)
	if !ok || clock > 24*time.Hour || !c.fits(clock) {
		return Operand{}, false
	}
	offset := 0
	if sc.rest != "" {
		if offset, ok = sc.offset(); !ok {
			return Operand{}, false
		}
	}
	return Operand{Text: formatClock(clock) + formatOffset(offset)}, sc.rest == ""
}

// NextDay returns the day after that of a DayOnly operand, in the same form.
func (o Operand) NextDay() string {
	sc := newDayScanner(o.Text, true)
	day, ok := sc.day()
	if !ok {
		return o.Text
	}
	next := day.AddDate(0, 0, 1)
	return formatDay(next) + era(next)
}

// formatDay leaves the era to its own place, behind the time.
func formatDay(t time.Time) string {
	year := t.Year()
	if year <= 0 {
		year = 1 - year
	}
	return fmt.Sprintf("%04d-%02d-%02d", year, t.Month(), t.Day())
}

func era(t time.Time) string {
	if t.Year() > 0 {
		return ""
	}
	return eraBC
}

func formatClock(d time.Duration) string {
	s := fmt.Sprintf("%02d:%02d:%02d", d/time.Hour, d/time.Minute%60, d/time.Second%60)
	if f := d % time.Second; f != 0 {
		s += strings.TrimRight(fmt.Sprintf(".%09d", f), "0")
	}
	return s
}

func formatOffset(seconds int) string {
	if seconds == 0 {
		return "Z"
	}
	sign := '+'
	if seconds < 0 {
		sign, seconds = '-', -seconds
	}
	return fmt.Sprintf("%c%02d:%02d", sign, seconds/3600, seconds/60%60)
}

// isDuration reports whether s is an ISO 8601 duration, each part with a sign of its own if need be, as PostgreSQL
// writes them.
func isDuration(s string) bool {
	sc := scanner{rest: s}
	sc.char("-+")
	if !sc.char("P") {
		return false
	}
	parts := sc.units("YMWD")
	if sc.char("T") {
		n := sc.units("HMS")
		if n == 0 {
			return false
		}
		parts += n
	}
	return parts > 0 && sc.rest == ""
}

// units reads numbers with units in the order of the given ones, each at most once, and counts them.
func (s *scanner) units(order string) int {
	count := 0
	for s.rest != "" && s.rest[0] != 'T' {
		s.char("-+")
		if _, ok := s.number(1, 12); !ok {
			return -1 << 16
		}
		if s.char(".,") {
			if _, ok := s.number(1, maxFraction); !ok {
				return -1 << 16
			}
		}
		at := -1
		if s.rest != "" {
			at = strings.IndexByte(order, s.rest[0])
		}
		if at < 0 {
			return -1 << 16
		}
		s.rest, order = s.rest[1:], order[at+1:]
		count++
	}
	return count
}
