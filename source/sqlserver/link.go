package sqlserver

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/source"
)

const (
	// readAhead is how many bytes the driver may read while a row is being visited. By itself it would go on for
	// several rows, however large they are.
	readAhead = 256 << 10
	// yieldEvery is how many bytes the driver reads before the visitor, if a row is there for it, gets its turn.
	yieldEvery = 32 << 10
)

// errNotTCP refuses what the driver might do beside connecting to the server: ask a browser service for its port.
var errNotTCP = errors.New("only TCP is dialled")

// link opens the network connections of one session, through the guarded dialer, and knows them all, so that closing
// leaves none. It is the driver's dialer. A server may send us on to another one during the login, which is judged like
// the first.
type link struct {
	dialer source.Dialer
	host   string

	mu     sync.Mutex
	moved  *sync.Cond // signals what the fields below allow
	conns  []net.Conn
	ended  bool
	timer  *time.Timer // runs while a connection is to be closed soon
	failed error       // of the network

	held  bool // no row is wanted now
	ahead int  // bytes read since that changed
	since int  // bytes read since the visitor had a turn
}

func newLink(d source.Dialer, host string) *link {
	l := &link{dialer: d, host: host}
	l.moved = sync.NewCond(&l.mu)
	return l
}

// HostName tells the driver to leave look-ups to the dialer.
func (l *link) HostName() string { return l.host }

// DialContext connects to the server.
func (l *link) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if network != "tcp" {
		return nil, errors.Join(dial.ErrNotAllowed, errNotTCP)
	}
	raw, err := l.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		_ = raw.Close()
		return nil, net.ErrClosed
	}
	l.conns = append(l.conns, raw)
	return &conn{Conn: raw, link: l}, nil
}

// conn is a connection whose reads the link holds back and whose failures it remembers.
type conn struct {
	net.Conn

	link *link
}

func (c *conn) Read(b []byte) (int, error) {
	if c.link.turn() {
		runtime.Gosched()
	}
	c.link.wait()
	n, err := c.Conn.Read(b)
	c.link.note(n, err)
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.link.note(0, err)
	c.link.release() // what comes next is the answer to it
	return n, err
}

// turn reports whether it is time to let the visitor have its turn.
func (l *link) turn() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since < yieldEvery {
		return false
	}
	l.since = 0
	return true
}

// wait returns once more may be read.
func (l *link) wait() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.held && l.ahead >= readAhead && !l.ended {
		l.moved.Wait()
	}
}

func (l *link) note(n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ahead += n
	l.since += n
	if err != nil && l.failed == nil {
		l.failed = err
	}
}

// hold stops the driver from reading far ahead while a row is visited. It returns how many bytes have come since the
// last one was wanted.
func (l *link) hold() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	size := l.ahead
	l.held, l.ahead = true, 0
	return size
}

// starve stops the driver from reading until it has written something. It asks the server to cancel only when it has
// nothing left to hand over, and a result that comes fast enough would go on for ever.
func (l *link) starve() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held, l.ahead = true, readAhead
}

// release lets the driver go on.
func (l *link) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held, l.ahead = false, 0
	l.moved.Broadcast()
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
	l.moved.Broadcast()
}
