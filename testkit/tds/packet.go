package tds

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
)

// The types of messages.
const (
	packetBatch       = 1
	packetRPC         = 3
	packetReply       = 4
	packetAttention   = 6
	packetTransaction = 14
	packetLogin       = 16
	packetPrelogin    = 18
)

const (
	headerSize     = 8
	smallestPacket = 512
	largestPacket  = 32767
	defaultPacket  = 4096
	statusLast     = 1
	longestMessage = 64 << 20
)

// readMessage reads packets up to the last of a message.
func readMessage(r io.Reader) (kind byte, body []byte, err error) {
	for {
		var header [headerSize]byte
		if _, err := io.ReadFull(r, header[:]); err != nil {
			return 0, nil, err
		}
		size := int(binary.BigEndian.Uint16(header[2:])) - headerSize
		if size < 0 || len(body) > longestMessage {
			return 0, nil, fmt.Errorf("packet of %d bytes in a message of %d", size, len(body))
		}
		kind = header[0]
		start := len(body)
		body = append(body, make([]byte, size)...)
		if _, err := io.ReadFull(r, body[start:]); err != nil {
			return 0, nil, err
		}
		if header[1]&statusLast != 0 {
			return kind, body, nil
		}
	}
}

// message is a message on its way out. Errors of writing stay until it ends.
type message struct {
	conn   net.Conn
	kind   byte
	number byte
	size   int // of packets
	out    []byte
	err    error
}

func newMessage(conn net.Conn, kind byte, size int) *message {
	return &message{conn: conn, kind: kind, size: size, out: make([]byte, headerSize, size)}
}

// Write adds p to the message, which is sent packet by packet.
func (m *message) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 && m.err == nil {
		if len(m.out) == m.size {
			m.send(0)
		}
		k := min(len(p), m.size-len(m.out))
		m.out = append(m.out, p[:k]...)
		p = p[k:]
	}
	return n, m.err
}

// flush sends what there is, not as the last packet.
func (m *message) flush() error {
	if len(m.out) > headerSize {
		m.send(0)
	}
	return m.err
}

// end sends the last packet.
func (m *message) end() error {
	m.send(statusLast)
	return m.err
}

func (m *message) send(status byte) {
	if m.err != nil {
		return
	}
	m.number++
	m.out[0], m.out[1], m.out[6] = m.kind, status, m.number
	binary.BigEndian.PutUint16(m.out[2:], uint16(len(m.out))) // #nosec G115 -- at most the packet size
	_, m.err = m.conn.Write(m.out)
	m.out = m.out[:headerSize]
}

// The little-endian numbers and counted texts that tokens consist of.

func u16(dst []byte, n int) []byte {
	return binary.LittleEndian.AppendUint16(dst, uint16(n)) // #nosec G115 -- the wire's width
}

func u32(dst []byte, n int) []byte {
	return binary.LittleEndian.AppendUint32(dst, uint32(n)) // #nosec G115 -- the wire's width
}

func u64(dst []byte, n uint64) []byte { return binary.LittleEndian.AppendUint64(dst, n) }

// byteText appends a text with its length in characters in one byte, usText in two.
func byteText(dst []byte, s string) []byte {
	units := utf16Bytes(s)
	return append(append(dst, byte(len(units)/2)), units...)
}

func usText(dst []byte, s string) []byte {
	units := utf16Bytes(s)
	return append(u16(dst, len(units)/2), units...)
}

// reader takes a message apart. After an error it returns zeros.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) bytes(n int) []byte {
	if n < 0 || n > len(r.rest) {
		if r.err == nil {
			r.err = io.ErrUnexpectedEOF
		}
		return make([]byte, max(0, min(n, bufio.MaxScanTokenSize)))
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte        { return r.bytes(1)[0] }
func (r *reader) u16() int          { return int(binary.LittleEndian.Uint16(r.bytes(2))) }
func (r *reader) u32() int          { return int(binary.LittleEndian.Uint32(r.bytes(4))) }
func (r *reader) u64() uint64       { return binary.LittleEndian.Uint64(r.bytes(8)) }
func (r *reader) text(n int) string { return utf16Text(r.bytes(2 * n)) }
