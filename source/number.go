package source

import (
	"strconv"
	"strings"
)

// maxDigits bounds the digits on either side of a decimal's point. No database declares more, and without a bound a
// few characters of exponent would stand for any amount of memory.
const maxDigits = 1000

// decimal is an exact number: digits with the point after the first `whole` of them.
type decimal struct {
	negative bool
	digits   string // no leading and no trailing zeros; empty for zero
	whole    int    // may be negative or larger than len(digits)
}

// parseDecimal reads a JSON number, also with leading zeros or a plus sign as strings may have them.
func parseDecimal(s string) (decimal, bool) {
	var d decimal
	d.negative = strings.HasPrefix(s, "-")
	if d.negative || strings.HasPrefix(s, "+") {
		s = s[1:]
	}
	mantissa, exponent, hasExponent := cutExponent(s)
	whole, fraction, hasPoint := strings.Cut(mantissa, ".")
	if !isDigits(whole) || (hasPoint && !isDigits(fraction)) {
		return d, false
	}
	shift := 0
	if hasExponent {
		sign := strings.TrimLeft(exponent, "+-")
		if !isDigits(sign) || len(exponent)-len(sign) > 1 {
			return d, false
		}
		n, err := strconv.Atoi(exponent)
		if err != nil || n > 1<<20 || n < -1<<20 { // far beyond maxDigits, whatever the mantissa of a request is
			return d, false
		}
		shift = n
	}
	digits := strings.TrimLeft(whole+fraction, "0")
	d.whole = len(digits) - len(fraction) + shift
	d.digits = strings.TrimRight(digits, "0")
	if d.digits == "" {
		return decimal{}, true
	}
	return d, d.whole <= maxDigits && len(d.digits)-d.whole <= maxDigits
}

func cutExponent(s string) (mantissa, exponent string, found bool) {
	i := strings.IndexAny(s, "eE")
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// integral reports whether the number has no fraction.
func (d decimal) integral() bool { return len(d.digits) <= d.whole || d.digits == "" }

// String returns the number in plain notation, without an exponent and without zeros that mean nothing.
func (d decimal) String() string {
	if d.digits == "" {
		return "0"
	}
	var b strings.Builder
	if d.negative {
		b.WriteByte('-')
	}
	switch {
	case d.whole <= 0:
		b.WriteString("0." + strings.Repeat("0", -d.whole) + d.digits)
	case d.whole >= len(d.digits):
		b.WriteString(d.digits + strings.Repeat("0", d.whole-len(d.digits)))
	default:
		b.WriteString(d.digits[:d.whole] + "." + d.digits[d.whole:])
	}
	return b.String()
}

func convertInt(c *Column, s string) (Operand, bool) {
	d, ok := parseDecimal(s)
	if !ok || !d.integral() {
		return Operand{}, false
	}
	text := d.String()
	var err error
	if c.Unsigned {
		_, err = strconv.ParseUint(text, 10, c.bits())
	} else {
		_, err = strconv.ParseInt(text, 10, c.bits())
	}
	return Operand{Text: text}, err == nil
}

func convertDecimal(c *Column, s string) (Operand, bool) {
	if c.Wide && isNonFinite(s) {
		return Operand{Text: s}, true
	}
	d, ok := parseDecimal(s)
	return Operand{Text: d.String()}, ok
}

// convertFloat keeps the number's own digits, for the server to round as it does, but refuses what would become
// infinite or zero on the way.
func convertFloat(c *Column, s string) (Operand, bool) {
	if isNonFinite(s) {
		return Operand{Text: s}, c.Wide
	}
	d, ok := parseDecimal(s)
	if !ok {
		return Operand{}, false
	}
	f, err := strconv.ParseFloat(s, c.bits())
	if err != nil || (f == 0 && d.digits != "") {
		return Operand{}, false
	}
	return Operand{Text: s}, true
}

func isNonFinite(s string) bool { return s == "NaN" || s == "Infinity" || s == "-Infinity" }

func (c *Column) bits() int {
	if c.Bits == 0 {
		return 64
	}
	return c.Bits
}
