package sqlserver

import (
	"math/big"
	"strings"
	"time"
)

// A filter's value need not be one that a column can have: a decimal may have more digits, a moment may lie between two
// ticks. Rounding it would find rows that don't match. So it is located among the values that the column can have.

// where is the place of a value.
type where uint8

const (
	exact   where = iota // it is one of them
	between              // it lies behind one of them and before the next
	below                // all of them are larger
	above                // all of them are smaller
)

// place is where a value lies: at text, or behind it.
type place struct {
	where where
	text  string
}

// grid is the values that columns of a type can have.
type grid interface {
	// locate finds the place of a canonical text.
	locate(text string) place
}

// numberGrid is multiples of a power of ten within limits.
type numberGrid struct {
	scale       int
	least, most *big.Int // in units of the last digit
}

func decimalGrid(precision, scale int) grid {
	limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(precision)), nil)
	limit.Sub(limit, big.NewInt(1))
	return numberGrid{scale: scale, least: new(big.Int).Neg(limit), most: limit}
}

func moneyGrid(bits uint) grid {
	const digits = 4
	limit := new(big.Int).Lsh(big.NewInt(1), bits-1)
	return numberGrid{scale: digits, least: new(big.Int).Neg(limit), most: new(big.Int).Sub(limit, big.NewInt(1))}
}

func (g numberGrid) locate(text string) place {
	whole, fraction, _ := strings.Cut(text, ".")
	rest := ""
	if len(fraction) > g.scale {
		fraction, rest = fraction[:g.scale], fraction[g.scale:]
	}
	n, ok := new(big.Int).SetString(whole+fraction+strings.Repeat("0", g.scale-len(fraction)), 10)
	if !ok { // which canonical texts are never
		return place{where: above}
	}
	p := place{}
	if strings.Trim(rest, "0") != "" {
		p.where = between
		if strings.HasPrefix(text, "-") { // cutting digits off went up
			n.Sub(n, big.NewInt(1))
		}
	}
	most := n.Cmp(g.most)
	switch {
	case n.Cmp(g.least) < 0:
		return place{where: below}
	case most > 0, most == 0 && p.where == between:
		return place{where: above}
	}
	p.text = g.write(n)
	return p
}

// write puts the point where it belongs.
func (g numberGrid) write(n *big.Int) string {
	digits := new(big.Int).Abs(n).String()
	if len(digits) <= g.scale {
		digits = strings.Repeat("0", g.scale-len(digits)+1) + digits
	}
	if g.scale > 0 {
		digits = digits[:len(digits)-g.scale] + "." + digits[len(digits)-g.scale:]
	}
	if n.Sign() < 0 {
		return "-" + digits
	}
	return digits
}

// The layouts of canonical moments and days.
const (
	layoutMoment = "2006-01-02T15:04:05.999999999"
	layoutClock  = "15:04:05.999999999"
)

// parseMoment reads a canonical moment or day. Years of more than four digits are behind everything.
func parseMoment(text string) (time.Time, bool) {
	text = strings.TrimSuffix(text, "Z")
	if at, err := time.Parse(time.DateOnly, text); err == nil {
		return at, true
	}
	at, err := time.Parse(layoutMoment, text)
	return at, err == nil
}

// timeGrid is moments within limits.
type timeGrid struct {
	least, most time.Time                   // the first and the last one
	floor       func(t time.Time) time.Time // the last one up to t; nil: t
}

func (g timeGrid) locate(text string) place {
	at, ok := parseMoment(text)
	switch {
	case !ok || at.After(g.most) && at.Sub(g.most) >= time.Minute: // the last minute may end behind it
		return place{where: above}
	case at.Before(g.least):
		return place{where: below}
	case g.floor == nil:
		return place{text: at.Format(layoutMoment)}
	}
	lower := g.floor(at)
	p := place{text: lower.Format(layoutMoment)}
	if !lower.Equal(at) {
		p.where = between
	}
	return p
}

func day(year int, month time.Month, d int) time.Time {
	return time.Date(year, month, d, 0, 0, 0, 0, time.UTC)
}

func lastMoment() time.Time { return day(10000, 1, 1).Add(-1) }

func momentGrid() grid { return timeGrid{least: day(1, 1, 1), most: lastMoment()} }

func minuteGrid() grid {
	return timeGrid{
		least: day(1900, 1, 1), most: day(2079, 6, 7).Add(-time.Minute),
		floor: func(t time.Time) time.Time { return t.Truncate(time.Minute) },
	}
}

// tickGrid is what servers show of three hundredths of a second: milliseconds that end in 0, 3 and 7.
func tickGrid() grid {
	return timeGrid{
		least: day(1753, 1, 1), most: lastMoment().Truncate(10 * time.Millisecond).Add(7 * time.Millisecond),
		floor: func(t time.Time) time.Time {
			tens := t.Truncate(10 * time.Millisecond)
			switch rest := t.Sub(tens); {
			case rest >= 7*time.Millisecond:
				return tens.Add(7 * time.Millisecond)
			case rest >= 3*time.Millisecond:
				return tens.Add(3 * time.Millisecond)
			}
			return tens
		},
	}
}

// dayGrid is the days that the server's calendar has.
type dayGrid struct{}

func (dayGrid) locate(text string) place {
	if _, err := time.Parse(time.DateOnly, text); err != nil {
		return place{where: above}
	}
	return place{text: text}
}

// clockGrid is the times of a day, which end before 24:00.
type clockGrid struct{}

func (clockGrid) locate(text string) place {
	if _, err := time.Parse(layoutClock, text); err != nil {
		return place{where: above}
	}
	return place{text: text}
}
