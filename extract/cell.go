package extract

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// A cell is the JSON text of one value, as sources append it.

func isNull(cell []byte) bool   { return len(cell) == 4 && cell[0] == 'n' }
func isString(cell []byte) bool { return len(cell) >= 2 && cell[0] == '"' }

// unquote returns the text of a string. It works in place.
func unquote(cell []byte) []byte {
	text := cell[1 : len(cell)-1]
	i := bytes.IndexByte(text, '\\')
	if i < 0 {
		return text
	}
	out := text[:i]
	for i >= 0 {
		text = text[i:]
		out, text = unescape(out, text)
		if i = bytes.IndexByte(text, '\\'); i >= 0 {
			out = append(out, text[:i]...)
		}
	}
	return append(out, text...)
}

// unescape appends the character that text begins with in escaped form, and returns what follows it.
func unescape(out, text []byte) (grown, rest []byte) {
	if len(text) < 2 {
		return out, nil
	}
	switch c := text[1]; c {
	case 'b':
		return append(out, '\b'), text[2:]
	case 'f':
		return append(out, '\f'), text[2:]
	case 'n':
		return append(out, '\n'), text[2:]
	case 'r':
		return append(out, '\r'), text[2:]
	case 't':
		return append(out, '\t'), text[2:]
	case 'u':
		r, rest := unit(text), text[min(6, len(text)):]
		if utf16.IsSurrogate(r) {
			second := utf8.RuneError
			if len(rest) >= 6 && rest[0] == '\\' && rest[1] == 'u' {
				second = unit(rest)
			}
			if r = utf16.DecodeRune(r, second); r != utf8.RuneError {
				rest = rest[6:]
			}
		}
		return utf8.AppendRune(out, r), rest
	default: // " \ /
		return append(out, c), text[2:]
	}
}

// unit reads \uXXXX.
func unit(text []byte) rune {
	if len(text) < 6 {
		return utf8.RuneError
	}
	var r rune
	for _, c := range text[2:6] {
		r <<= 4
		switch {
		case c >= '0' && c <= '9':
			r |= rune(c - '0')
		case c >= 'a' && c <= 'f':
			r |= rune(c - 'a' + 10)
		case c >= 'A' && c <= 'F':
			r |= rune(c - 'A' + 10)
		default:
			return utf8.RuneError
		}
	}
	return r
}
