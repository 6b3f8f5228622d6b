// Package form owns the JSON forms that values of all kinds of database have in common: text, numbers, UUIDs, bytes.
//
// It touches nothing but the buffers it is given. It promises valid JSON in valid UTF-8 for any input, appended without
// allocating where the buffer has room.
package form

import (
	"encoding/base64"
	"math"
	"slices"
	"strconv"
)

// AppendUUID appends the canonical form of sixteen bytes, as they are in order, in quotes.
func AppendUUID(dst, v []byte) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	for i, c := range v {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			dst = append(dst, '-')
		}
		dst = append(dst, digits[c>>4], digits[c&0xf])
	}
	return append(dst, '"')
}

// AppendFloat appends the shortest digits that read back as f, a number of size bits, with an exponent where PostgreSQL
// would write one; NaN and the infinities as those words in quotes.
func AppendFloat(dst []byte, f float64, size int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	}
	most, least := 1e15, 1e-4
	if size == 32 {
		most, least = 1e6, float64(float32(least))
	}
	if a := math.Abs(f); a != 0 && (a < least || a >= most) {
		return strconv.AppendFloat(dst, f, 'e', -1, size)
	}
	return strconv.AppendFloat(dst, f, 'f', -1, size)
}

// IsPlain reports whether v is ASCII that a JSON string takes as it is.
func IsPlain(v []byte) bool {
	n, ascii := cleanRun(v)
	return ascii && n == len(v)
}

// IsNumber reports whether v is a number as JSON has them, apart from capital E.
func IsNumber(v []byte) bool {
	if len(v) > 0 && v[0] == '-' {
		v = v[1:]
	}
	n := digits(v)
	if n == 0 {
		return false
	}
	if v = v[n:]; len(v) > 0 && v[0] == '.' {
		if n = digits(v[1:]); n == 0 {
			return false
		}
		v = v[n+1:]
	}
	if len(v) > 2 && v[0] == 'e' && (v[1] == '+' || v[1] == '-') {
		v = v[2:]
		n = digits(v)
		return n > 0 && n == len(v)
	}
	return len(v) == 0
}

// digits counts the digits that v begins with.
func digits(v []byte) int {
	for i, c := range v {
		if c < '0' || c > '9' {
			return i
		}
	}
	return len(v)
}

// AppendBase64 appends v in standard base64, in quotes.
func AppendBase64(dst, v []byte) []byte {
	dst = slices.Grow(dst, base64.StdEncoding.EncodedLen(len(v))+2)
	dst = base64.StdEncoding.AppendEncode(append(dst, '"'), v)
	return append(dst, '"')
}
