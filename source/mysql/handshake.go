package mysql

import (
	"bytes"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"io"
	"net"

	"github.com/fetcherhq/fetcher/source"
)

// Capabilities of the protocol.
const (
	capMySQL        = 1 << 0 // not set: the server is MariaDB and has capabilities of its own
	capLocalFiles   = 1 << 7
	capProtocol41   = 1 << 9
	capTLS          = 1 << 11
	capSecure       = 1 << 15
	capDeprecateEOF = 1 << 24
)

const (
	protocolVersion = 10
	packetLimit     = 16 << 10
	tlsRequestSize  = 32
	scrambleSize    = 8 // of the first part
	scrambleRest    = 13
)

// errNoTLS says that the server does not speak TLS.
var errNoTLS = errors.New("server has no TLS")

// tlsError marks a failure of encryption or of a certificate.
type tlsError struct{ err error }

func (e *tlsError) Error() string { return "tls: " + e.err.Error() }
func (e *tlsError) Unwrap() error { return e.err }

// handshake is the connection that the driver authenticates on. It starts TLS beneath the driver, which would keep the
// encrypted connection to itself: we go on speaking on it. So the driver misses one packet, the request for TLS, and
// the numbers of the next ones are put right for both sides.
type handshake struct {
	net.Conn // encrypted once TLS has begun

	tls      *tls.Config // nil: unencrypted
	password string
	plainEOF bool // rows end with a packet of the old kind

	unread  []byte // of the server's packet, by the driver
	begun   bool   // the driver has answered the greeting
	shift   byte   // the packets that the driver doesn't know of; 0 once it has been let in
	heard   bool   // the server has said something over TLS
	failure error  // why the connection can't be used: the driver keeps it to itself
}

// greet reads the server's first packet and prepares it for the driver.
func greet(conn net.Conn, a attempt) (*handshake, error) {
	h := &handshake{Conn: conn}
	if err := h.receive(); err != nil {
		return nil, err
	}
	body := h.unread[headerSize:]
	if body[0] == headerError { // too many connections, and the like
		if !wellFormed(body) {
			return nil, errProtocol
		}
		return h, nil
	}
	capabilities, err := restrict(body)
	if err != nil {
		return nil, err
	}
	h.plainEOF = capabilities&capDeprecateEOF == 0
	switch {
	case capabilities&capTLS != 0:
		h.tls = a.tls
	case a.tls != nil && !a.optional:
		return nil, &tlsError{err: errNoTLS}
	}
	return h, nil
}

// restrict takes out of a greeting what neither the driver nor we shall make use of, and returns what the server said
// it can do. It checks that everything is there that the driver will look at.
func restrict(body []byte) (uint32, error) {
	end := bytes.IndexByte(body, 0)
	at := end + 1 + 4 + scrambleSize + 1 // version, number of the connection
	const rest = 2 + 1 + 2 + 2 + 1 + 6 + 4 + scrambleRest
	if body[0] != protocolVersion || end < 0 || len(body) < at+rest {
		return 0, errProtocol
	}
	low, high := body[at:], body[at+5:]
	capabilities := uint32(binary.LittleEndian.Uint16(low)) | uint32(binary.LittleEndian.Uint16(high))<<16
	if capabilities&capProtocol41 == 0 || capabilities&capSecure == 0 {
		return 0, errProtocol
	}
	binary.LittleEndian.PutUint16(low, uint16(capabilities&^(capLocalFiles|capTLS))) // #nosec G115 -- the lower half
	if capabilities&capMySQL == 0 {
		clear(body[at+14 : at+18]) // MariaDB's: results without their columns, above all
	}
	return capabilities, nil
}

// receive reads the server's next packet.
func (h *handshake) receive() error {
	var head [headerSize]byte
	if _, err := io.ReadFull(h.Conn, head[:]); err != nil {
		return err
	}
	size := packetSize(head[:])
	if size == 0 || size > packetLimit {
		return errProtocol
	}
	h.unread = make([]byte, headerSize+size)
	copy(h.unread, head[:])
	_, err := io.ReadFull(h.Conn, h.unread[headerSize:])
	return err
}

// Read gives the driver what the server says, if its parser is up to that.
func (h *handshake) Read(b []byte) (int, error) {
	if len(h.unread) == 0 {
		if err := h.receive(); err != nil {
			return 0, h.fail(err)
		}
		if !wellFormed(h.unread[headerSize:]) {
			return 0, h.fail(errProtocol)
		}
		h.unread[3] -= h.shift
		h.heard = h.shift > 0
	}
	n := copy(b, h.unread)
	h.unread = h.unread[n:]
	return n, nil
}

// wellFormed reports whether a packet that follows the greeting has everything that the driver takes for granted.
func wellFormed(body []byte) bool {
	const (
		smallestOK      = 7
		smallestError   = 4
		smallestState   = 9
		headerMore      = 1
		wholeScramble   = 20
		smallestMessage = 2 // more would be a key
	)
	switch body[0] {
	case headerOK:
		return len(body) >= smallestOK
	case headerError:
		return len(body) >= smallestState || (len(body) >= smallestError && body[3] != '#')
	case headerEnd: // to another way to authenticate
		name := bytes.IndexByte(body, 0)
		return len(body) == 1 || (name > 0 && len(body)-name-1 >= wholeScramble)
	case headerMore:
		return len(body) <= smallestMessage || isKey(body[1:])
	}
	return false
}

// isKey reports whether text is a public key of the kind that passwords are encrypted with.
func isKey(text []byte) bool {
	block, _ := pem.Decode(text)
	if block == nil {
		return false
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return false
	}
	_, ok := key.(*rsa.PublicKey)
	return ok
}

// Write takes one packet from the driver.
func (h *handshake) Write(b []byte) (int, error) {
	if len(b) <= headerSize {
		return 0, h.fail(errProtocol)
	}
	if b[3] == 0 { // a command: the driver has been let in
		h.shift = 0
		n, err := h.Conn.Write(b)
		return n, h.fail(err)
	}
	packet := bytes.Clone(b)
	if !h.begun {
		h.begun = true
		if err := h.encrypt(packet); err != nil {
			return 0, h.fail(err)
		}
	} else if h.tls != nil && len(packet) == headerSize+1 && packet[headerSize] == 1 {
		// sha256_password: the driver, which thinks that nothing is encrypted, asks for a key to do it with. On a
		// connection like this one the server expects the password.
		packet = append(packet[:headerSize], append([]byte(h.password), 0)...)
		putSize(packet)
	}
	packet[3] += h.shift
	if _, err := h.Conn.Write(packet); err != nil {
		return 0, h.fail(err)
	}
	return len(b), nil
}

// encrypt starts TLS, if it is wanted, before the driver's answer to the greeting goes out.
func (h *handshake) encrypt(answer []byte) error {
	if h.tls == nil {
		return nil
	}
	if len(answer) < headerSize+tlsRequestSize {
		return errProtocol
	}
	answer[headerSize+1] |= capTLS >> 8
	request := bytes.Clone(answer[:headerSize+tlsRequestSize])
	putSize(request)
	if _, err := h.Conn.Write(request); err != nil {
		return err
	}
	secured := tls.Client(h.Conn, h.tls)
	if err := secured.Handshake(); err != nil { //nolint:noctx // the connection has a deadline
		return &tlsError{err: err}
	}
	h.Conn, h.shift = secured, 1
	return nil
}

// fail remembers the first failure. In TLS 1.3 a client's certificate is refused only after the handshake, and the
// refusal may be lost when the server hangs up over what we have sent meanwhile.
func (h *handshake) fail(err error) error {
	if err != nil && h.shift > 0 && !h.heard && h.tls.GetClientCertificate != nil && source.ConnectionEnded(err) {
		err = &tlsError{err: err}
	}
	if h.failure == nil {
		h.failure = err
	}
	return err
}

// Close closes the connection without a goodbye that could block.
func (h *handshake) Close() error {
	if secured, ok := h.Conn.(*tls.Conn); ok {
		return secured.NetConn().Close()
	}
	return h.Conn.Close()
}

func packetSize(head []byte) int { return int(head[0]) | int(head[1])<<8 | int(head[2])<<16 }

func putSize(packet []byte) {
	n := len(packet) - headerSize
	packet[0], packet[1], packet[2] = byte(n), byte(n>>8), byte(n>>16) // #nosec G115 -- byte by byte
}
