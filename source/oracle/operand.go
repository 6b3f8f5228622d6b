package oracle

import (
	"strconv"
	"strings"

	oracle "github.com/sijms/go-ora/v2"

	"github.com/fetcherhq/fetcher/source"
)

// value binds an operand as a parameter that is converted to the column's own type, so that it is the parameter that is
// converted and an index on the column can be used. Numbers and moments are bound as text: the driver would round some.
func (c condition) value(o source.Operand) string {
	var holder string
	switch c.typ.family {
	case source.FamilyBinary:
		holder = c.bind(o.Bytes)
	case source.FamilyText:
		holder = c.bind(c.textOf(o.Text))
	case source.FamilyBool:
		holder = c.bind(strconv.FormatBool(o.Bool))
	case source.FamilyFloat:
		holder = c.bind(strings.Replace(o.Text, "Infinity", "INF", 1))
	case source.FamilyTimestamp, source.FamilyTimestampTZ:
		holder = c.bind(c.typ.moment(o.Text))
	case source.FamilyInterval:
		text, _ := intervalOf(o.Text, c.typ.kind)
		holder = c.bind(text)
	default:
		holder = c.bind(o.Text)
	}
	if c.typ.bind == "" {
		return holder
	}
	return strings.Replace(c.typ.bind, "%s", holder, 1)
}

// textOf makes a text one of the column's character set.
func (c condition) textOf(s string) any {
	if c.typ.national {
		return oracle.NVarChar(s)
	}
	return s
}

// moment writes a canonical moment or day in the format that the type is bound in.
func (t *typ) moment(text string) string {
	text, before := strings.CutSuffix(text, " BC")
	text = strings.TrimSuffix(text, "Z")
	if !strings.Contains(text, "T") {
		text += "T00:00:00"
	}
	if strings.Contains(t.bind, ".FF9") && !strings.Contains(text, ".") {
		text += ".0"
	}
	if t.family == source.FamilyTimestampTZ {
		text += "+00:00"
	}
	if before {
		return "-" + text
	}
	return text
}

const (
	lastYear  = 9999 // that Oracle's calendar has
	firstYear = 4712 // before Christ
)

// beyond reports whether a canonical moment is outside of Oracle's calendar.
func beyond(text string) bool {
	year, _, _ := strings.Cut(text, "-")
	n, err := strconv.Atoi(year)
	if strings.HasSuffix(text, " BC") {
		return err != nil || n > firstYear
	}
	return err != nil || n > lastYear
}

const (
	mostWhole     = 125 // digits before the point of the largest number
	mostFraction  = 130 // digits behind the point of the smallest one
	longestPadded = 2000
)

// CheckOperand refuses what the type can't hold, or what the server would round before it compares.
func (t *typ) CheckOperand(o source.Operand) bool {
	switch t.family {
	case source.FamilyDecimal:
		return exactly(o.Text)
	case source.FamilyTimestamp, source.FamilyTimestampTZ:
		_, fraction, _ := strings.Cut(strings.TrimSuffix(strings.TrimSuffix(o.Text, " BC"), "Z"), ".")
		return !strings.HasSuffix(o.Text, "infinity") && !beyond(o.Text) && len(fraction) <= t.fraction
	case source.FamilyInterval:
		_, ok := intervalOf(o.Text, t.kind)
		return ok
	case source.FamilyText:
		return t.place != padded || len(o.Text) <= longestPadded
	}
	return true
}

// exactly reports whether a NUMBER holds a canonical decimal with all of its digits.
func exactly(text string) bool {
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(text, "-"), ".")
	whole = strings.TrimLeft(whole, "0")
	digits := strings.Trim(whole+fraction, "0")
	return len(digits) <= mostDigits && len(whole) <= mostWhole && len(fraction) <= mostFraction
}
