package oracle

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/source"
)

var (
	// errNotTCP refuses what the driver might do beside connecting to a listener.
	errNotTCP = errors.New("only TCP is dialled")

	// errPlain refuses to go on without encryption where a listener sends us on to a port that has none.
	errPlain = errors.New("connection would not be encrypted")

	// errRedirects ends being sent from one address to the next.
	errRedirects = errors.New("listeners redirect without end")
)

// maxDials is how many connections a session may take to find its server.
const maxDials = 8

// link opens the network connections of one session, through the guarded dialer, and knows them all, so that closing
// leaves none. It is the driver's dialer. A listener may send us on to another address, which is judged like the first.
type link struct {
	dialer    source.Dialer
	encrypted bool // nothing but TLS is sent

	mu     sync.Mutex
	dials  int
	conns  []net.Conn
	ended  bool
	timer  *time.Timer // runs while everything is to be closed soon
	failed error       // of the network
}

// DialContext connects to a listener or a server.
func (l *link) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if network != "tcp" {
		return nil, errors.Join(dial.ErrNotAllowed, errNotTCP)
	}
	if l.count() > maxDials {
		return nil, errRedirects
	}
	raw, err := l.dialer.DialContext(ctx, network, address)
	if err != nil {
		l.note(err)
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		_ = raw.Close()
		return nil, net.ErrClosed
	}
	l.conns = append(l.conns, raw)
	return &conn{Conn: raw, link: l, checked: !l.encrypted}, nil
}

func (l *link) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dials++
	return l.dials
}

// conn is a connection whose failures the link remembers.
type conn struct {
	net.Conn

	link    *link
	checked bool // what is sent needs no look any more
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.link.note(err)
	return n, err
}

// Write sends b. Where all has to be encrypted, the first thing sent must be what TLS begins with: Oracle's own packets
// begin with their length, and the first one is shorter than that would be.
func (c *conn) Write(b []byte) (int, error) {
	const handshake, version = 22, 3
	if !c.checked {
		if len(b) < 2 || b[0] != handshake || b[1] != version {
			c.link.note(errPlain)
			return 0, errPlain
		}
		c.checked = true
	}
	n, err := c.Conn.Write(b)
	c.link.note(err)
	return n, err
}

// note remembers the first failure.
func (l *link) note(err error) {
	if err == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = err
	}
}

// failure returns what went wrong with the network first, if anything did.
func (l *link) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// closeIn closes everything after d, unless calm is called before.
func (l *link) closeIn(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer == nil && !l.ended {
		l.timer = time.AfterFunc(d, l.closeAll)
	}
}

func (l *link) calm() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}

// closeAll closes whatever is still open, abruptly.
func (l *link) closeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	for _, c := range l.conns {
		_ = c.Close()
	}
	l.conns = nil
}
