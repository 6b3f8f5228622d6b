package mysql

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/source"
)

// link opens the network connections of one session, the one for its statements and those for ending them, all through
// the guarded dialer and all encrypted alike. It knows them all, so that closing the session leaves none.
type link struct {
	dialer  source.Dialer
	params  source.Params
	attempt attempt

	mu    sync.Mutex
	peer  string // the server's own address, once there is a session
	conns map[net.Conn]struct{}
	ended bool
}

// connect opens an authenticated connection and returns it with what ends it.
func (l *link) connect(ctx context.Context) (w *wire, end func(), err error) {
	raw, err := l.dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	if !l.keep(raw) {
		_ = raw.Close()
		return nil, nil, net.ErrClosed
	}
	defer func() {
		if err != nil {
			l.drop(raw)
		}
	}()
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	h, err := greet(raw, l.attempt)
	if err != nil {
		return nil, nil, err
	}
	h.password = l.params.Password
	conn, err := authenticate(ctx, l.config(h))
	if err != nil {
		return nil, nil, errors.Join(h.failure, err)
	}
	if !stop() { // the deadline may still be on its way
		_ = conn.Close()
		return nil, nil, context.Cause(ctx)
	}
	end = func() {
		_ = conn.Close()
		l.drop(raw)
	}
	return &wire{conn: h.Conn, buf: make([]byte, bufferSize), plainEOF: h.plainEOF}, end, nil
}

// authenticate has the driver do so. Its parser panics over packets that no honest server sends.
func authenticate(ctx context.Context, config *mysql.Config) (conn interface{ Close() error }, err error) {
	defer func() {
		if p := recover(); p != nil {
			conn, err = nil, errProtocol
		}
	}()
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return connector.Connect(ctx)
}

// config is the driver's configuration. It is filled, not parsed: any character may be in it.
func (l *link) config(h *handshake) *mysql.Config {
	c := mysql.NewConfig()
	c.User, c.Passwd, c.DBName = l.params.User, l.params.Password, l.params.Database
	c.Net, c.Addr = "tcp", net.JoinHostPort(l.params.Host, strconv.Itoa(l.params.Port))
	if h.tls != nil {
		// TLS is ours, beneath the driver. This is how it knows a transport that passwords may be sent on.
		c.Net = "unix"
	}
	c.DialFunc = func(context.Context, string, string) (net.Conn, error) { return h, nil }
	c.AllowCleartextPasswords = h.tls != nil && l.attempt.verified
	c.CheckConnLiveness = false
	c.ConnectionAttributes = "program_name:fetcher"
	c.Logger = &mysql.NopLogger{}
	return c
}

func (l *link) dial(ctx context.Context) (net.Conn, error) {
	name := net.JoinHostPort(l.params.Host, strconv.Itoa(l.params.Port))
	l.mu.Lock()
	peer := l.peer
	l.mu.Unlock()
	if peer == "" {
		return l.dialer.DialContext(ctx, "tcp", name)
	}
	// The server to end a statement at is the one we are connected to, not just any that the name stands for. A guard
	// that lists names may know the server by its name only.
	conn, err := l.dialer.DialContext(ctx, "tcp", peer)
	if errors.Is(err, dial.ErrNotAllowed) {
		return l.dialer.DialContext(ctx, "tcp", name)
	}
	return conn, err
}

// established says where the session is.
func (l *link) established(w *wire) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.peer = w.conn.RemoteAddr().String()
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

func (l *link) drop(conn net.Conn) {
	_ = conn.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, conn)
}

// closeAll closes whatever is still open, abruptly.
func (l *link) closeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	for conn := range l.conns {
		_ = conn.Close()
	}
	l.conns = nil
}

// kill ends the connection with the given number at the server, and its statement with it. Ending just the statement
// would be lost if it had not begun yet.
func (l *link) kill(ctx context.Context, id uint64) error {
	w, end, err := l.connect(ctx)
	if err != nil {
		return err
	}
	defer end()
	stop := context.AfterFunc(ctx, func() { _ = w.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := w.exec(fmt.Sprintf("KILL %d", id)); err != nil {
		return fmt.Errorf("kill: %w", err)
	}
	return nil
}
