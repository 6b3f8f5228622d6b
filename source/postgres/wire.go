package postgres

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgproto3"
)

const (
	// bufferSize is how much is read at once, and the size from which a value counts as large.
	bufferSize = 64 << 10
	headerSize = 5
	lengthSize = 4
	// maxMessage is what the server itself allows a message to be, maxOther what one that is not a row may need, and
	// maxHeld the largest value that is held as a whole.
	maxMessage = 1 << 30
	maxOther   = 1 << 20
	maxHeld    = 32 << 20
)

var errProtocol = errors.New("server broke the protocol")

// wire reads the server's messages straight from the connection. pgconn would hold every message in memory.
type wire struct {
	conn io.Reader
	buf  []byte
	r, w int // what has been read and not yet used is buf[r:w]
}

func newWire(conn io.Reader) *wire {
	return &wire{conn: conn, buf: make([]byte, bufferSize)}
}

// header returns the type of the next message and the size of its body.
func (w *wire) header() (kind byte, size int, err error) {
	head, err := w.next(headerSize)
	if err != nil {
		return 0, 0, err
	}
	size = int(binary.BigEndian.Uint32(head[1:])) - lengthSize
	if size < 0 || size > maxMessage {
		return 0, 0, errProtocol
	}
	return head[0], size, nil
}

// next returns the next n bytes, which are valid until the next call of a method.
func (w *wire) next(n int) ([]byte, error) {
	if w.w-w.r < n {
		if err := w.fill(n); err != nil {
			return nil, err
		}
	}
	b := w.buf[w.r : w.r+n]
	w.r += n
	return b, nil
}

// fill reads until n bytes are there to be used.
func (w *wire) fill(n int) error {
	unread := w.buf[w.r:w.w]
	if n > len(w.buf) {
		w.buf = make([]byte, max(n, len(w.buf)+len(w.buf)/4))
	}
	w.w = copy(w.buf, unread)
	w.r = 0
	read, err := io.ReadAtLeast(w.conn, w.buf[w.w:], n-w.w)
	w.w += read
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// some returns between 1 and n bytes, as many as there are; n is not 0.
func (w *wire) some(n int) ([]byte, error) {
	if w.r == w.w {
		if err := w.fill(1); err != nil {
			return nil, err
		}
	}
	n = min(n, w.w-w.r)
	return w.next(n)
}

// unread gives the last n bytes back.
func (w *wire) unread(n int) { w.r -= n }

// skip passes over n bytes.
func (w *wire) skip(n int) error {
	for n > 0 {
		b, err := w.some(n)
		if err != nil {
			return err
		}
		n -= len(b)
	}
	return nil
}

// finish ends the use of the connection: what the server said on its own behalf goes, and so does a large buffer.
func (w *wire) finish() error {
	for w.r < w.w {
		_, size, err := w.header()
		if err != nil {
			return err
		}
		if err := w.skip(size); err != nil {
			return err
		}
	}
	if len(w.buf) > bufferSize {
		w.buf = make([]byte, bufferSize)
	}
	return nil
}

// decode reads the rest of a message that is not a row.
func (w *wire) decode(size int, into pgproto3.BackendMessage) error {
	if size > maxOther {
		return errProtocol
	}
	body, err := w.next(size)
	if err != nil {
		return err
	}
	if err := into.Decode(body); err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	return nil
}
