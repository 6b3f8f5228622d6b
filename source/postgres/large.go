package postgres

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/form"
)

const (
	countSize  = 2
	spillSize  = bufferSize
	groupSize  = 3 // bytes that base64 encodes together
	nullLength = -1
)

var (
	errOrder    = errors.New("columns were not visited in ascending order")
	errTooLarge = errors.New("value is too large to be taken apart")
)

// begin makes the next row, a message of the given size, the current one. A row that fits into the buffer is held
// there; the columns of a larger one are read when they are asked for.
func (r *row) begin(size int) error {
	r.values, r.large = r.values[:0], size > bufferSize-headerSize
	if r.large {
		head, err := r.wire.next(countSize)
		if err != nil {
			return err
		}
		r.column, r.left = 0, size-countSize
		return r.checkCount(head)
	}
	body, err := r.wire.next(size)
	if err != nil {
		return err
	}
	if len(body) < countSize {
		return errProtocol
	}
	if err := r.checkCount(body); err != nil {
		return err
	}
	return r.split(body[countSize:])
}

func (r *row) checkCount(head []byte) error {
	if int(binary.BigEndian.Uint16(head)) != len(r.columns) {
		return errProtocol
	}
	return nil
}

// split finds the values of a row that is held.
func (r *row) split(body []byte) error {
	for range r.columns {
		if len(body) < lengthSize {
			return errProtocol
		}
		n := int(int32(binary.BigEndian.Uint32(body))) // #nosec G115 -- the wire's sign
		body = body[lengthSize:]
		if n == nullLength {
			r.values = append(r.values, nil)
			continue
		}
		if n < 0 || n > len(body) {
			return errProtocol
		}
		r.values = append(r.values, body[:n:n])
		body = body[n:]
	}
	return nil
}

// end passes over what was not asked for and returns what went wrong with a value.
func (r *row) end() error {
	if r.err == nil && r.large {
		r.err = r.wire.skip(r.left)
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
	n := r.length()
	switch c := &r.columns[i]; {
	case r.err != nil || n == nullLength:
		return append(dst, "null"...)
	case n <= bufferSize:
		return r.appendHeld(dst, c, n)
	case c.kind == kindText:
		dst = r.grow(dst, n+n/8)
		return append(r.appendPieces(append(dst, '"'), n, form.AppendEscaped), '"')
	case c.kind == kindJSON:
		return r.appendPieces(r.grow(dst, n), n, form.AppendJSON)
	case c.kind == kindBytesBinary:
		dst = r.grow(dst, base64.StdEncoding.EncodedLen(n))
		return append(r.appendBase64Pieces(append(dst, '"'), n), '"')
	case n > maxHeld:
		r.err = errTooLarge
		return append(dst, "null"...)
	default: // what has to be taken apart
		return r.appendHeld(dst, c, n)
	}
}

// grow makes room at once for a value that nobody takes over in pieces.
func (r *row) grow(dst []byte, n int) []byte {
	if r.spill != nil {
		return dst
	}
	return slices.Grow(dst, n+2)
}

// length reads the length of the next column.
func (r *row) length() int {
	if r.err != nil {
		return 0
	}
	if r.left < lengthSize {
		r.err = errProtocol
		return 0
	}
	b, err := r.wire.next(lengthSize)
	if err != nil {
		r.err = err
		return 0
	}
	n := int(int32(binary.BigEndian.Uint32(b))) // #nosec G115 -- the wire's sign
	r.column++
	r.left -= lengthSize
	if n < nullLength || n > r.left {
		r.err = errProtocol
		return 0
	}
	r.left -= max(n, 0)
	return n
}

func (r *row) skipColumn() {
	if n := r.length(); n > 0 && r.err == nil {
		r.err = r.wire.skip(n)
	}
}

// appendHeld appends a value of n bytes that is read as a whole.
func (r *row) appendHeld(dst []byte, c *column, n int) []byte {
	v, err := r.wire.next(n)
	if err != nil {
		r.err = err
		return append(dst, "null"...)
	}
	return r.appendValue(dst, c, v)
}

// appendPieces appends n bytes of text piece by piece, none of which ends within a character.
func (r *row) appendPieces(dst []byte, n int, appendText func(dst, s []byte) []byte) []byte {
	for n > 0 {
		piece, err := r.wire.some(n)
		if err != nil {
			r.err = err
			return dst
		}
		if rest := incomplete(piece); rest > 0 && len(piece) < n {
			if rest == len(piece) { // not even one character: more has to come first
				r.wire.unread(rest)
				if err := r.wire.fill(min(n, utf8.UTFMax)); err != nil {
					r.err = err
					return dst
				}
				continue
			}
			r.wire.unread(rest)
			piece = piece[:len(piece)-rest]
		}
		n -= len(piece)
		dst = r.flush(appendText(dst, piece))
	}
	return dst
}

// incomplete returns how many bytes at the end of b may be the beginning of a character that goes on behind it.
func incomplete(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		c := b[len(b)-n]
		if utf8.RuneStart(c) {
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
		piece, err := r.wire.next(size)
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
