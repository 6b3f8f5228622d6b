package mongodb

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"sync"

	"github.com/fetcherhq/fetcher/source"
)

// tlsError marks a failure of encryption or of a certificate.
type tlsError struct{ err error }

func (e *tlsError) Error() string { return "tls: " + e.err.Error() }
func (e *tlsError) Unwrap() error { return e.err }

// link opens the network connections of one session, to whichever member of a replica set, all through the guarded
// dialer and all encrypted alike. TLS is done here and not by the driver, which would ask servers that a certificate
// names, on ways of its own, whether it is revoked. link knows its connections, so that closing it leaves none.
type link struct {
	dialer source.Dialer
	params source.Params
	check  source.CertificateCheck
	secure bool

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	ended bool
}

// newLink gives the modes the meaning they have in MongoDB: true and enable verify chain and name, insecure nothing.
func newLink(p source.Params, d source.Dialer) (*link, error) {
	l := &link{dialer: d, params: p, conns: map[net.Conn]struct{}{}}
	mode := p.TLS.Mode
	if mode == "" {
		mode = source.DefaultMode(source.MongoDB)
	}
	switch mode {
	case "disable", "false":
		return l, nil
	case "insecure":
		l.secure, l.check = true, source.CheckNothing
	case "true", "enable":
		l.secure, l.check = true, source.CheckName
	default:
		return nil, errors.New("unknown TLS mode")
	}
	_, err := p.ClientTLS(l.check) // what can't be used is told before anything is dialled
	return l, err
}

// DialContext implements the driver's ContextDialer. A member is expected to have a certificate for its own name.
func (l *link) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := l.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	tracked := &trackedConn{Conn: conn, link: l}
	if !l.keep(tracked) {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	if !l.secure {
		return &framedConn{Conn: tracked}, nil
	}
	secured, err := l.encrypt(ctx, tracked, address)
	if err != nil {
		_ = tracked.Close()
		return nil, &tlsError{err: err}
	}
	return &framedConn{Conn: secured}, nil
}

func (l *link) encrypt(ctx context.Context, conn net.Conn, address string) (net.Conn, error) {
	p := l.params
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	p.Host = host
	config, err := p.ClientTLS(l.check)
	if err != nil {
		return nil, err
	}
	if config.GetClientCertificate == nil { // a server that asks for a certificate refuses to go on without one, as a rule
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &tls.Certificate{}, nil }
	}
	return source.Encrypt(ctx, conn, config)
}

// keep remembers conn; false if the link has been closed.
func (l *link) keep(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	l.conns[conn] = struct{}{}
	return true
}

func (l *link) forget(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, conn)
}

// closeAll closes whatever is still open, without a goodbye that could block.
func (l *link) closeAll() {
	l.mu.Lock()
	conns := l.conns
	l.conns, l.ended = nil, true
	l.mu.Unlock()
	for conn := range conns {
		_ = conn.Close()
	}
}

// trackedConn is a connection that the link knows of.
type trackedConn struct {
	net.Conn

	link *link
}

func (c *trackedConn) Close() error {
	c.link.forget(c)
	return c.Conn.Close()
}

// maxMessage is the most that servers send at once.
const maxMessage = 48_000_000

var errMessage = errors.New("message is longer than any of a server")

// framedConn refuses messages that are longer than those of any server as soon as their length is known. The driver would
// believe a server that says that it has longer ones, and make room for all of one before it comes.
type framedConn struct {
	net.Conn

	length [lengthSize]byte
	known  int    // bytes of the length
	left   uint32 // bytes of the message that are still to come
}

func (c *framedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	for in := b[:n]; len(in) > 0; {
		if c.left > 0 {
			step := min(uint64(c.left), uint64(len(in)))
			in, c.left = in[step:], c.left-uint32(step) // #nosec G115 -- at most what is left
			continue
		}
		step := copy(c.length[c.known:], in)
		in, c.known = in[step:], c.known+step
		if c.known < lengthSize {
			continue
		}
		size := binary.LittleEndian.Uint32(c.length[:])
		if size < lengthSize || size > maxMessage {
			return 0, &source.Error{Category: source.CategoryUnsupported, Err: errMessage}
		}
		c.known, c.left = 0, size-lengthSize
	}
	return n, err
}
