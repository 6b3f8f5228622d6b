package form

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf8"
)

// Eight bytes are looked at together: a word times a byte is that byte eight times, and subtracting it leaves the top
// bit set, first of all, in a byte that was smaller.
const (
	wordSize = 8
	eachByte = 0x0101010101010101
	topBits  = 0x80 * eachByte
	replaced = "\uFFFD"
)

// AppendString appends s as a JSON string. Each byte that is not UTF-8 becomes one U+FFFD.
func AppendString(dst, s []byte) []byte {
	if cap(dst)-len(dst) < len(s)+2 { // once, not again with every escape of a large value
		dst = slices.Grow(dst, len(s)+len(s)/8+16)
	}
	return append(AppendEscaped(append(dst, '"'), s), '"')
}

// AppendEscaped appends what is between the quotes of a JSON string.
func AppendEscaped(dst, s []byte) []byte {
	for len(s) > 0 {
		n, ascii := cleanRun(s)
		dst = appendUTF8(dst, s[:n], ascii)
		if s = s[n:]; len(s) > 0 {
			dst = appendEscape(dst, s[0])
			s = s[1:]
		}
	}
	return dst
}

// AppendJSON appends a JSON value as the server sent it. Line ends between its tokens become blanks, so that it
// fits on a line; within tokens there are none.
func AppendJSON(dst, s []byte) []byte {
	for len(s) > 0 {
		n, ascii := printableRun(s)
		dst = appendUTF8(dst, s[:n], ascii)
		if s = s[n:]; len(s) > 0 {
			dst = append(dst, ' ')
			s = s[1:]
		}
	}
	return dst
}

// appendUTF8 appends s with every byte that is not UTF-8 replaced.
func appendUTF8(dst, s []byte, ascii bool) []byte {
	if ascii || utf8.Valid(s) {
		return append(dst, s...)
	}
	for len(s) > 0 {
		r, n := utf8.DecodeRune(s)
		if r == utf8.RuneError && n == 1 {
			dst = append(dst, replaced...)
		} else {
			dst = append(dst, s[:n]...)
		}
		s = s[n:]
	}
	return dst
}

// cleanRun returns how many bytes of s, from its start, a JSON string takes as they are, and whether they are ASCII
// for sure.
func cleanRun(s []byte) (n int, ascii bool) {
	var high uint64
	for ; n+wordSize <= len(s); n += wordSize {
		w := binary.LittleEndian.Uint64(s[n:])
		quote, backslash := w^('"'*eachByte), w^('\\'*eachByte)
		found := below(w, ' ') | below(quote, 1) | below(backslash, 1)
		high |= w & topBits
		if found != 0 {
			return n + bits.TrailingZeros64(found)/wordSize, high == 0
		}
	}
	ascii = high == 0
	for ; n < len(s); n++ {
		c := s[n]
		if c < ' ' || c == '"' || c == '\\' {
			break
		}
		ascii = ascii && c < utf8.RuneSelf
	}
	return n, ascii
}

// printableRun is cleanRun for text that is JSON already.
func printableRun(s []byte) (n int, ascii bool) {
	var high uint64
	for ; n+wordSize <= len(s); n += wordSize {
		w := binary.LittleEndian.Uint64(s[n:])
		high |= w & topBits
		if found := below(w, ' '); found != 0 {
			return n + bits.TrailingZeros64(found)/wordSize, high == 0
		}
	}
	ascii = high == 0
	for ; n < len(s) && s[n] >= ' '; n++ {
		ascii = ascii && s[n] < utf8.RuneSelf
	}
	return n, ascii
}

// below sets the top bit of the first byte of w that is smaller than limit, and maybe of bytes behind it.
func below(w uint64, limit byte) uint64 {
	return (w - uint64(limit)*eachByte) &^ w & topBits
}

// appendEscape appends the escape of a control character, quote or backslash.
func appendEscape(dst []byte, c byte) []byte {
	const digits = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	}
	return append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&0xf])
}
