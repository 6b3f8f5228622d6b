package mysql

import (
	"encoding/binary"
	"strconv"
)

// Sizes of dates and times: without clock, without fraction, whole. Zero takes no bytes at all.
const (
	sizeDay      = 4
	sizeClock    = 7
	sizeFraction = 11
	sizeSpan     = 8
	sizeSpanPart = 12
)

// appendTemporal appends a date, a time or both. Parts of a date may be zero, as the server has them.
func (r *row) appendTemporal(dst []byte, k kind, v []byte) []byte {
	if k == kindTime {
		return r.appendTime(dst, v)
	}
	switch len(v) {
	case 0, sizeDay, sizeClock, sizeFraction:
	default:
		return r.malformed(dst)
	}
	var whole [sizeFraction]byte
	copy(whole[:], v)
	year := binary.LittleEndian.Uint16(whole[:])
	dst = appendDigits(append(dst, '"'), uint32(year), 4)
	dst = appendDigits(append(dst, '-'), uint32(whole[2]), 2)
	dst = appendDigits(append(dst, '-'), uint32(whole[3]), 2)
	if k == kindDate {
		return append(dst, '"')
	}
	dst = appendClock(append(dst, 'T'), uint32(whole[4]), whole[5], whole[6], binary.LittleEndian.Uint32(whole[7:]))
	if k == kindTimestamp && year > 0 { // zero is no instant
		dst = append(dst, 'Z')
	}
	return append(dst, '"')
}

// appendTime appends a span of up to 838 hours, with its sign.
func (r *row) appendTime(dst, v []byte) []byte {
	switch len(v) {
	case 0, sizeSpan, sizeSpanPart:
	default:
		return r.malformed(dst)
	}
	var whole [sizeSpanPart]byte
	copy(whole[:], v)
	dst = append(dst, '"')
	if whole[0] != 0 {
		dst = append(dst, '-')
	}
	hours := binary.LittleEndian.Uint32(whole[1:])*24 + uint32(whole[5])
	dst = appendClock(dst, hours, whole[6], whole[7], binary.LittleEndian.Uint32(whole[8:]))
	return append(dst, '"')
}

// appendClock appends HH:MM:SS and as many digits of the fraction as are needed.
func appendClock(dst []byte, hours uint32, minutes, seconds byte, micros uint32) []byte {
	dst = appendDigits(dst, hours, 2)
	dst = appendDigits(append(dst, ':'), uint32(minutes), 2)
	dst = appendDigits(append(dst, ':'), uint32(seconds), 2)
	if micros == 0 {
		return dst
	}
	dst = appendDigits(append(dst, '.'), micros, 6)
	for dst[len(dst)-1] == '0' {
		dst = dst[:len(dst)-1]
	}
	return dst
}

// appendDigits appends n with at least the given number of digits.
func appendDigits(dst []byte, n uint32, least int) []byte {
	if least == 2 && n < 100 {
		return append(dst, '0'+byte(n/10), '0'+byte(n%10))
	}
	for limit := uint32(1); least > 1; least-- {
		limit *= 10
		if n < limit {
			dst = append(dst, '0')
		}
	}
	return strconv.AppendUint(dst, uint64(n), 10)
}
