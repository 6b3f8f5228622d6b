package postgres

import (
	"bytes"

	"github.com/fetcherhq/fetcher/source/form"
)

// appendTimestampText appends a timestamp in the server's ISO style, like "2024-01-31 10:00:00.5+00 BC".
func (r *row) appendTimestampText(dst, v []byte) []byte {
	if !form.IsPlain(v) {
		return r.malformed(dst)
	}
	dst = append(dst, '"')
	day, rest, found := bytes.Cut(v, []byte{' '})
	dst = append(dst, day...) // or infinity
	if !found {
		return append(dst, '"')
	}
	clock, era, found := bytes.Cut(rest, []byte{' '})
	dst = appendOffset(append(dst, 'T'), clock)
	if found {
		dst = append(append(dst, ' '), era...)
	}
	return append(dst, '"')
}

// appendTimeTZ appends a time with its own offset.
func (r *row) appendTimeTZ(dst, v []byte) []byte {
	if !form.IsPlain(v) {
		return r.malformed(dst)
	}
	dst = appendOffset(append(dst, '"'), v)
	return append(dst, '"')
}

// appendOffset appends a time of day and writes its offset, if it has one, as RFC 3339 does: the server leaves out
// minutes that are zero and has no Z.
func appendOffset(dst, v []byte) []byte {
	i := bytes.LastIndexAny(v, "+-")
	if i < 0 {
		return append(dst, v...)
	}
	dst = append(dst, v[:i]...)
	offset := v[i:]
	if string(offset) == "+00" {
		return append(dst, 'Z')
	}
	dst = append(dst, offset...)
	if len(offset) == len("+02") {
		dst = append(dst, ":00"...)
	}
	return dst
}
