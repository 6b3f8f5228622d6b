package mysql

import (
	"encoding/binary"
	"errors"
	"io"
	"net"

	"github.com/go-sql-driver/mysql"
)

const (
	// bufferSize is how much is read at once, and the size from which a row counts as large.
	bufferSize = 64 << 10
	headerSize = 4
	// maxPacket is the size of a packet that is not the last one of what it carries, maxOther what one that is not a
	// row may need, and maxHeld the largest value that is held as a whole.
	maxPacket = 1<<24 - 1
	maxOther  = 1 << 20
	maxHeld   = 32 << 20
)

// The first byte of an answer.
const (
	headerOK    = 0x00
	headerEnd   = 0xfe
	headerError = 0xff
)

// Commands.
const (
	comQuery   = 3
	comPrepare = 22
	comExecute = 23
	comClose   = 25
)

var (
	errProtocol = errors.New("server broke the protocol")
	errTooLong  = errors.New("statement is too long")
)

// wire writes commands and reads the answers straight from the connection. The driver would hold every row in memory.
type wire struct {
	conn     net.Conn
	plainEOF bool // rows end with a packet of the old kind
	buf      []byte
	r, w     int    // what has been read and not yet used is buf[r:w]
	sequence byte   // of the next packet
	left     int    // bytes of the packet's body
	more     bool   // the next packet carries on what this one carries
	joined   []byte // bytes that came in several packets
}

// command sends a command. The answer is read with header and what follows it.
func (w *wire) command(kind byte, body []byte) error {
	if len(body)+1 >= maxPacket {
		return errTooLong
	}
	packet := make([]byte, headerSize, headerSize+1+len(body))
	packet = append(append(packet, kind), body...)
	putSize(packet)
	w.sequence = 1
	_, err := w.conn.Write(packet)
	return err
}

// exec runs a statement without a result.
func (w *wire) exec(sql string) error {
	if err := w.command(comQuery, []byte(sql)); err != nil {
		return err
	}
	body, err := w.packet()
	if err != nil {
		return err
	}
	switch body[0] {
	case headerOK:
		return nil
	case headerError:
		return serverError(body)
	}
	return errProtocol
}

// header begins the next packet and returns the size of its body.
func (w *wire) header() (int, error) {
	head, err := w.raw(headerSize)
	if err != nil {
		return 0, err
	}
	if head[3] != w.sequence {
		return 0, errProtocol
	}
	w.sequence++
	w.left = packetSize(head)
	w.more = w.left == maxPacket
	return w.left, nil
}

// packet reads a packet that is not a row and not empty.
func (w *wire) packet() ([]byte, error) {
	size, err := w.header()
	if err != nil {
		return nil, err
	}
	if size == 0 || size > maxOther {
		return nil, errProtocol
	}
	return w.take(size)
}

// take returns the next n bytes of what the packet carries, which are valid until the next call of a method.
func (w *wire) take(n int) ([]byte, error) {
	if n <= w.left {
		w.left -= n
		return w.raw(n)
	}
	w.joined = w.joined[:0]
	for n > 0 {
		b, err := w.some(n)
		if err != nil {
			return nil, err
		}
		w.joined = append(w.joined, b...)
		n -= len(b)
	}
	return w.joined, nil
}

// some returns between 1 and n bytes, as many as there are; n is not 0.
func (w *wire) some(n int) ([]byte, error) {
	for w.left == 0 {
		if !w.more {
			return nil, errProtocol
		}
		if _, err := w.header(); err != nil {
			return nil, err
		}
	}
	if w.r == w.w {
		if err := w.fill(1); err != nil {
			return nil, err
		}
	}
	n = min(n, w.left, w.w-w.r)
	w.left -= n
	return w.raw(n)
}

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

// rest passes over what is left of the packet, and of those that carry it on.
func (w *wire) rest() error {
	for w.left > 0 || w.more {
		if w.left == 0 {
			if _, err := w.header(); err != nil {
				return err
			}
			continue
		}
		if err := w.skip(w.left); err != nil {
			return err
		}
	}
	return nil
}

// raw returns the next n bytes of the connection.
func (w *wire) raw(n int) ([]byte, error) {
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

// shrink lets go of a large buffer. What it holds has been used.
func (w *wire) shrink() {
	if len(w.buf) > bufferSize && w.r == w.w {
		w.buf, w.r, w.w = make([]byte, bufferSize), 0, 0
	}
	if cap(w.joined) > bufferSize {
		w.joined = nil
	}
}

// number reads an integer of variable length. null says that there is none.
func (w *wire) number() (n uint64, null bool, err error) {
	b, err := w.take(1)
	if err != nil {
		return 0, false, err
	}
	var size int
	switch b[0] {
	case 0xfb:
		return 0, true, nil
	case 0xfc:
		size = 2
	case 0xfd:
		size = 3
	case 0xfe:
		size = 8
	case 0xff:
		return 0, false, errProtocol
	default:
		return uint64(b[0]), false, nil
	}
	if b, err = w.take(size); err != nil {
		return 0, false, err
	}
	var whole [8]byte
	copy(whole[:], b)
	return binary.LittleEndian.Uint64(whole[:]), false, nil
}

// text takes a text of variable length off b.
func text(b []byte) (value, rest []byte, ok bool) {
	n, size := number(b)
	if size == 0 || n > uint64(len(b)) || int(n) > len(b)-size { // #nosec G115 -- checked
		return nil, nil, false
	}
	end := size + int(n) // #nosec G115 -- checked
	return b[size:end:end], b[end:], true
}

// number returns the integer that b begins with, and how many bytes it takes; 0: there is none.
func number(b []byte) (n uint64, size int) {
	if len(b) == 0 {
		return 0, 0
	}
	switch {
	case b[0] < 0xfb:
		return uint64(b[0]), 1
	case b[0] == 0xfc && len(b) >= 3:
		return uint64(binary.LittleEndian.Uint16(b[1:])), 3
	case b[0] == 0xfd && len(b) >= 4:
		return uint64(b[1]) | uint64(b[2])<<8 | uint64(b[3])<<16, 4
	case b[0] == 0xfe && len(b) >= 9:
		return binary.LittleEndian.Uint64(b[1:]), 9
	}
	return 0, 0
}

// serverError reads what the server says went wrong, in the driver's form.
func serverError(body []byte) error {
	if len(body) < 3 {
		return errProtocol
	}
	e := &mysql.MySQLError{Number: binary.LittleEndian.Uint16(body[1:])}
	body = body[3:]
	if len(body) >= 6 && body[0] == '#' {
		copy(e.SQLState[:], body[1:6])
		body = body[6:]
	}
	e.Message = string(body)
	return e
}
