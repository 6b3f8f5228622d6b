package mysql

import (
	"encoding/base64"
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/form"
)

const (
	spillSize = bufferSize
	groupSize = 3 // bytes that base64 encodes together
)

var (
	errOrder    = errors.New("columns were not visited in ascending order")
	errTooLarge = errors.New("value is too large to be held")
)

// begin makes what comes in a packet of the given size the current row; false at the end of the rows. A row that fits
// into the buffer is held there; the columns of a larger one are read when they are asked for. Of our own statements
// every row is held that comes in one packet.
func (r *row) begin(size int) (bool, error) {
	if r.large = size > bufferSize-headerSize && !r.own; r.large {
		return true, r.beginLarge()
	}
	if size == 0 || r.wire.more && r.own {
		return false, errProtocol
	}
	body, err := r.wire.take(size)
	if err != nil {
		return false, err
	}
	switch body[0] {
	case headerOK:
		return true, r.split(body)
	case headerError:
		return false, serverError(body)
	case headerEnd:
		return false, nil
	}
	return false, errProtocol
}

// nullsSize is the size of the bits that say which columns are null. The first two have no meaning.
func (r *row) nullsSize() int { return (len(r.columns) + 2 + 7) / 8 }

func isNull(nulls []byte, i int) bool { return nulls[(i+2)/8]>>((i+2)%8)&1 != 0 }

// split finds the values of a row that is held.
func (r *row) split(body []byte) error {
	at := 1 + r.nullsSize()
	if len(body) < at {
		return errProtocol
	}
	nulls, rest := body[1:at], body[at:]
	r.values = r.values[:0]
	for i := range r.columns {
		if isNull(nulls, i) {
			r.values = append(r.values, nil)
			continue
		}
		var v []byte
		if n := r.columns[i].size; n > 0 {
			if n > len(rest) {
				return errProtocol
			}
			v, rest = rest[:n:n], rest[n:]
		} else {
			var ok bool
			if v, rest, ok = text(rest); !ok {
				return errProtocol
			}
		}
		r.values = append(r.values, v)
	}
	if len(rest) > 0 {
		return errProtocol
	}
	return nil
}

func (r *row) beginLarge() error {
	head, err := r.wire.take(1)
	if err != nil {
		return err
	}
	if head[0] != headerOK {
		return errProtocol
	}
	nulls, err := r.wire.take(r.nullsSize())
	if err != nil {
		return err
	}
	r.nulls, r.column = append(r.nulls[:0], nulls...), 0
	return nil
}

// end passes over what was not asked for and returns what went wrong with a value.
func (r *row) end() error {
	if r.err == nil && r.large {
		r.err = r.wire.rest()
	}
	if errors.Is(r.err, errMalformed) || errors.Is(r.err, errTooLarge) {
		return &source.Error{Category: source.CategoryValue, Err: r.err}
	}
	return r.err
}

// appendLarge appends column i of a row that is not held.
func (r *row) appendLarge(dst []byte, i int) []byte {
	for r.err == nil && r.column < i {
		r.skipColumn()
	}
	if r.err == nil && r.column != i {
		r.err = errOrder
	}
	c := &r.columns[i]
	n, isNull := r.length()
	switch {
	case r.err != nil || isNull:
		return append(dst, null...)
	case n > bufferSize && c.kind == kindText:
		dst = r.grow(dst, n+n/8)
		return append(r.appendPieces(append(dst, '"'), n, form.AppendEscaped), '"')
	case n > bufferSize && c.kind == kindJSON:
		return r.appendPieces(r.grow(dst, n), n, form.AppendJSON)
	case n > bufferSize && c.kind == kindBytes:
		dst = r.grow(dst, base64.StdEncoding.EncodedLen(n))
		return append(r.appendBase64Pieces(append(dst, '"'), n), '"')
	case n > maxHeld:
		r.err = errTooLarge
		return append(dst, null...)
	}
	v, err := r.wire.take(n)
	if err != nil {
		r.err = err
		return append(dst, null...)
	}
	return r.appendValue(dst, c, v)
}

// grow makes room at once for a value that nobody takes over in pieces.
func (r *row) grow(dst []byte, n int) []byte {
	if r.spill != nil {
		return dst
	}
	return slices.Grow(dst, n+2)
}

// length reads the length of the next column.
func (r *row) length() (n int, null bool) {
	if r.err != nil {
		return 0, true
	}
	i := r.column
	r.column++
	if isNull(r.nulls, i) {
		return 0, true
	}
	if size := r.columns[i].size; size > 0 {
		return size, false
	}
	long, null, err := r.wire.number()
	if err == nil && (null || long > 1<<32) {
		err = errProtocol
	}
	r.err = err
	return int(long), err != nil // #nosec G115 -- checked
}

func (r *row) skipColumn() {
	if n, null := r.length(); !null {
		r.err = r.wire.skip(n)
	}
}

// appendPieces appends n bytes of text piece by piece. What a piece ends in may be the beginning of a character: it
// waits for the rest.
func (r *row) appendPieces(dst []byte, n int, appendText func(dst, s []byte) []byte) []byte {
	var waiting []byte
	for n > 0 {
		if len(waiting) > 0 {
			b, err := r.wire.take(1)
			if err != nil {
				r.err = err
				return dst
			}
			n--
			waiting = append(waiting, b...)
			for len(waiting) > 0 && utf8.FullRune(waiting) {
				_, size := utf8.DecodeRune(waiting)
				dst, waiting = appendText(dst, waiting[:size]), waiting[size:]
			}
			continue
		}
		piece, err := r.wire.some(n)
		if err != nil {
			r.err = err
			return dst
		}
		n -= len(piece)
		whole := len(piece) - incomplete(piece)
		waiting = append(waiting[:0], piece[whole:]...)
		dst = r.flush(appendText(dst, piece[:whole]))
	}
	return appendText(dst, waiting)
}

// incomplete returns how many bytes at the end of b may be the beginning of a character that goes on behind it.
func incomplete(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if c := b[len(b)-n]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// appendBase64Pieces appends n bytes in base64, piece by piece.
func (r *row) appendBase64Pieces(dst []byte, n int) []byte {
	for n > 0 {
		size := min(n, bufferSize/2/groupSize*groupSize)
		piece, err := r.wire.take(size)
		if err != nil {
			r.err = err
			return dst
		}
		n -= size
		dst = r.flush(base64.StdEncoding.AppendEncode(dst, piece))
	}
	return dst
}

// flush hands dst over once it is large, if somebody takes it.
func (r *row) flush(dst []byte) []byte {
	if r.spill == nil || len(dst) < spillSize {
		return dst
	}
	if err := r.spill(dst); err != nil && r.err == nil {
		r.err = &visitError{err: err}
	}
	return dst[:0]
}
