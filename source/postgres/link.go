package postgres

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/source"
)

// sslRequest is the code that asks a server for TLS in place of a protocol version.
const sslRequest = 80877103

// errNoTLS says that the server does not speak TLS.
var errNoTLS = errors.New("server refused TLS")

// tlsError marks a failure of encryption or of a certificate.
type tlsError struct{ err error }

func (e *tlsError) Error() string { return "tls: " + e.err.Error() }
func (e *tlsError) Unwrap() error { return e.err }

// link opens the network connections of one session, the one for its statements and those for cancelling them, all
// through the guarded dialer and all encrypted alike. It knows them all, so that closing the session leaves none.
type link struct {
	dialer   source.Dialer
	host     string
	port     int
	tls      *tls.Config // nil: unencrypted
	optional bool        // go on unencrypted if the server has no TLS

	mu    sync.Mutex
	up    bool // the session is authenticated: further connections are for cancelling
	conns map[net.Conn]struct{}
	ended bool
}

func (l *link) established() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.up = true
}

// dial is pgconn's DialFunc. Its address is not used for the session itself: the guarded dialer resolves names.
func (l *link) dial(ctx context.Context, _, address string) (net.Conn, error) {
	raw, err := l.dialRaw(ctx, address)
	if err != nil {
		return nil, err
	}
	conn, err := l.secure(ctx, raw)
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	if !l.keep(conn) {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (l *link) dialRaw(ctx context.Context, address string) (net.Conn, error) {
	name := net.JoinHostPort(l.host, strconv.Itoa(l.port))
	l.mu.Lock()
	cancelling := l.up
	l.mu.Unlock()
	if !cancelling {
		return l.dialer.DialContext(ctx, "tcp", name)
	}
	// The server to cancel at is the one we are connected to, not just any that the name stands for. A guard that
	// lists names may know the server by its name only.
	conn, err := l.dialer.DialContext(ctx, "tcp", address)
	if errors.Is(err, dial.ErrNotAllowed) {
		return l.dialer.DialContext(ctx, "tcp", name)
	}
	return conn, err
}

// secure starts TLS on conn if the link wants it.
func (l *link) secure(ctx context.Context, conn net.Conn) (net.Conn, error) {
	if l.tls == nil {
		return conn, nil
	}
	answer, err := askForTLS(ctx, conn)
	if err != nil {
		return nil, fmt.Errorf("ask for tls: %w", err)
	}
	switch {
	case answer == 'S':
	case answer == 'N' && l.optional:
		return conn, nil
	default:
		return nil, &tlsError{err: errNoTLS}
	}
	secured, err := source.Encrypt(ctx, conn, l.tls)
	if err != nil {
		return nil, &tlsError{err: err}
	}
	return secured, nil
}

// askForTLS returns the server's one byte of answer. It reads no further: what follows belongs to the handshake, and
// must not have been sent in clear.
func askForTLS(ctx context.Context, conn net.Conn) (byte, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	request := binary.BigEndian.AppendUint32([]byte{0, 0, 0, 8}, sslRequest)
	if _, err := conn.Write(request); err != nil {
		return 0, err
	}
	var answer [1]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return 0, err
	}
	return answer[0], conn.SetDeadline(time.Time{})
}

// keep remembers conn; false if the link has been closed.
func (l *link) keep(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	if l.conns == nil {
		l.conns = make(map[net.Conn]struct{})
	}
	l.conns[conn] = struct{}{}
	return true
}

// closeAll closes whatever is still open, abruptly.
func (l *link) closeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	for conn := range l.conns {
		if secured, ok := conn.(*source.Encrypted); ok {
			conn = secured.NetConn() // without a goodbye that could block
		}
		_ = conn.Close()
	}
	l.conns = nil
}
