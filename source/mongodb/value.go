package mongodb

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fetcherhq/fetcher/source/form"
)

const (
	// maxDepth is beyond what the server stores; it bounds the stack.
	maxDepth = 1000
	// pieceSize is how much of a large value is appended before what is held may be handed over. It is a multiple of
	// three, so that base64 can be cut there.
	pieceSize = 48 << 10
)

var errDepth = errors.New("document nested too deeply")

// writer appends values as JSON and hands over what is held when that is much.
type writer struct {
	spill func([]byte) error // nil: everything is held
	err   error              // the first failure
}

// fail leaves null for a value that can't be had.
func (w *writer) fail(dst []byte, err error) []byte {
	if w.err == nil {
		w.err = err
	}
	return append(dst, "null"...)
}

// flush hands dst over if it is large.
func (w *writer) flush(dst []byte) []byte {
	if w.spill == nil || len(dst) < pieceSize || w.err != nil {
		return dst
	}
	if err := w.spill(dst); err != nil {
		w.err = err
	}
	return dst[:0]
}

// value appends the JSON form of an element's value.
func (w *writer) value(dst []byte, e element, depth int) []byte {
	v := e.value
	switch e.kind {
	case kindDouble:
		return form.AppendFloat(dst, math.Float64frombits(binary.LittleEndian.Uint64(v)), 64)
	case kindString:
		return w.text(dst, v)
	case kindDocument:
		return w.document(dst, v, depth)
	case kindArray:
		return w.array(dst, v, depth)
	case kindBinary:
		return w.binary(dst, v)
	case kindObjectID:
		dst = hex.AppendEncode(append(dst, '"'), v)
		return append(dst, '"')
	case kindBool:
		return strconv.AppendBool(dst, v[0] != 0)
	case kindDate:
		return appendDate(dst, int64(binary.LittleEndian.Uint64(v))) // #nosec G115 -- the wire's sign
	case kindInt32:
		return strconv.AppendInt(dst, int64(int32(binary.LittleEndian.Uint32(v))), 10) // #nosec G115 -- the wire's sign
	case kindInt64:
		return strconv.AppendInt(dst, int64(binary.LittleEndian.Uint64(v)), 10) // #nosec G115 -- the wire's sign
	case kindDecimal:
		d := bson.NewDecimal128(binary.LittleEndian.Uint64(v[8:]), binary.LittleEndian.Uint64(v))
		dst = append(append(dst, '"'), d.String()...)
		return append(dst, '"')
	}
	return w.extended(dst, e)
}

// document appends an object with the order of its members kept.
func (w *writer) document(dst, doc []byte, depth int) []byte {
	rest, err := members(doc)
	if err != nil || depth == maxDepth {
		return w.fail(dst, errors.Join(err, errDepth))
	}
	dst = append(dst, '{')
	for first := true; len(rest) > 0; first = false {
		var e element
		if !first {
			dst = append(dst, ',')
		}
		if e, rest, err = next(rest); err != nil {
			return append(w.fail(append(dst, `"":`...), err), '}')
		}
		dst = append(form.AppendString(dst, e.name), ':')
		dst = w.flush(w.value(dst, e, depth+1))
	}
	return append(dst, '}')
}

func (w *writer) array(dst, doc []byte, depth int) []byte {
	rest, err := members(doc)
	if err != nil || depth == maxDepth {
		return w.fail(dst, errors.Join(err, errDepth))
	}
	dst = append(dst, '[')
	for first := true; len(rest) > 0; first = false {
		var e element
		if !first {
			dst = append(dst, ',')
		}
		if e, rest, err = next(rest); err != nil {
			return append(w.fail(dst, err), ']')
		}
		dst = w.flush(w.value(dst, e, depth+1))
	}
	return append(dst, ']')
}

// text appends a string, a large one in pieces that end between characters.
func (w *writer) text(dst, v []byte) []byte {
	s, err := text(v)
	if err != nil {
		return w.fail(dst, err)
	}
	if w.spill == nil || len(s) <= pieceSize {
		return form.AppendString(dst, s)
	}
	dst = append(dst, '"')
	for len(s) > 0 {
		n := cut(s, pieceSize)
		dst = w.flush(form.AppendEscaped(dst, s[:n]))
		s = s[n:]
	}
	return append(dst, '"')
}

// cut returns where a piece of at most limit bytes ends that does not tear a character apart.
func cut(s []byte, limit int) int {
	if len(s) <= limit {
		return len(s)
	}
	for n := limit; n > limit-utf8.UTFMax; n-- {
		if utf8.RuneStart(s[n]) {
			return n
		}
	}
	return limit // in the midst of what is not UTF-8
}

func (w *writer) binary(dst, v []byte) []byte {
	subtype, data := binaryOf(v)
	if isUUID(subtype, data) {
		return form.AppendUUID(dst, data)
	}
	if w.spill == nil || len(data) <= pieceSize {
		return form.AppendBase64(dst, data)
	}
	dst = append(dst, '"')
	for len(data) > 0 {
		n := min(len(data), pieceSize)
		dst = w.flush(base64.StdEncoding.AppendEncode(dst, data[:n]))
		data = data[n:]
	}
	return append(dst, '"')
}

// appendDate appends an instant of milliseconds since 1970 in UTC, with all digits of its year.
func appendDate(dst []byte, millis int64) []byte {
	t := time.UnixMilli(millis).UTC()
	year, month, day := t.Date()
	bc := year <= 0
	if bc {
		year = 1 - year
	}
	dst = append(dst, '"')
	for limit := 1000; limit > year && limit > 1; limit /= 10 {
		dst = append(dst, '0')
	}
	dst = strconv.AppendInt(dst, int64(year), 10)
	dst = appendTwo(append(dst, '-'), int(month))
	dst = appendTwo(append(dst, '-'), day)
	hour, minute, second := t.Clock()
	dst = appendTwo(append(dst, 'T'), hour)
	dst = appendTwo(append(dst, ':'), minute)
	dst = appendTwo(append(dst, ':'), second)
	if fraction := t.Nanosecond() / int(time.Millisecond); fraction > 0 {
		dst = append(dst, '.', digit(fraction/100))
		if fraction %= 100; fraction > 0 {
			dst = append(dst, digit(fraction/10))
			if fraction %= 10; fraction > 0 {
				dst = append(dst, digit(fraction))
			}
		}
	}
	dst = append(dst, 'Z')
	if bc {
		dst = append(dst, " BC"...)
	}
	return append(dst, '"')
}

func appendTwo(dst []byte, n int) []byte { return append(dst, digit(n/10), digit(n%10)) }

func digit(n int) byte { return "0123456789"[n] }
