package fetch

import (
	"errors"
	"io"
	"slices"
)

// firstBuffer is what a body gets at first; most pages fit.
const firstBuffer = 64 << 10

var errOverLimit = errors.New("over the limit")

// counted counts what comes off the wire, remembers how it ended, and ends it when it is too much.
type counted struct {
	from  io.Reader
	limit int64
	n     int64
	err   error
}

func (c *counted) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.from.Read(p)
	c.n += int64(n)
	if err != nil {
		c.err = err
	}
	if c.n > c.limit {
		return 0, errOverLimit
	}
	return n, err
}

// readAll reads to the end of from, at most limit bytes, in few buffers: twenty bodies of the limit's size at once must
// fit into memory together. length is what is announced, or negative.
func readAll(from io.Reader, limit, length int) ([]byte, error) {
	largest := limit
	if length >= 0 && length < limit {
		largest = length
	}
	buf := make([]byte, 0, min(firstBuffer, largest))
	for {
		if len(buf) == cap(buf) {
			if len(buf) == largest {
				return buf, atEnd(from)
			}
			buf = append(make([]byte, 0, min(16*cap(buf), largest)), buf...)
		}
		n, err := from.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if errors.Is(err, io.EOF) {
			if len(buf) < cap(buf)/2 {
				buf = slices.Clone(buf)
			}
			return buf, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// atEnd reads on to make sure that nothing follows.
func atEnd(from io.Reader) error {
	for {
		n, err := from.Read(make([]byte, 1))
		switch {
		case n > 0:
			return errOverLimit
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}
