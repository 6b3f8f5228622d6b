package tenant

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// errSilent says that a server accepted what it was sent and did not answer.
var errSilent = errors.New("tenant: the database does not answer")

// dialer makes a pool's connections: each one counts toward its host's budget from before it is dialled until it is
// closed, and is given up when the server falls silent.
type dialer struct {
	dial    DialFunc
	budget  *budget
	reclaim func(ctx context.Context, address string) bool // closes an idle connection to the address, of any tenant
	silence time.Duration                                  // 0: wait as long as the statement's context
	silent  func()                                         // called when a connection was given up; may be nil
	opened  func(address string)                           // called with every address connected to; may be nil
}

// DialContext is what pgx dials with.
func (d dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if !d.budget.take(address) {
		if !d.reclaim(ctx, address) || !d.budget.take(address) {
			return nil, errHostSpent
		}
	}
	conn, err := d.dial(ctx, network, address)
	if err != nil {
		d.budget.give(address)
		return nil, err
	}
	if d.opened != nil {
		d.opened(address)
	}
	return &trackedConn{Conn: conn, silence: d.silence, silent: d.silent,
		closed: func() { d.budget.give(address) }}, nil
}

// GuardControl makes the connections of c, which are to the control database, bounded like those to tenants': in the time
// they take to come about, all addresses together, and in the time the server may take to begin its answer to what it was
// sent. A connection that waits for notifications is owed no answer and may be quiet for ever.
func GuardControl(c *pgx.ConnConfig, connect, silence time.Duration) {
	c.ConnectTimeout = connect / time.Duration(hosts(c))
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialPlain(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &trackedConn{Conn: conn, silence: silence, listens: true, closed: func() {}}, nil
	}
}

// trackedConn gives its place in the budget back when it is closed, and closes itself when one read or write makes
// no progress for the time given as silence. Deadlines set from outside, by which pgx cancels, hold as well.
type trackedConn struct {
	net.Conn

	silence time.Duration
	silent  func()
	closed  func()
	once    sync.Once

	listens bool        // reads may take for ever while no answer is owed
	owed    atomic.Bool // something was sent and nothing received since

	mu          sync.Mutex
	read, write time.Time // deadlines set from outside
}

func (c *trackedConn) Read(p []byte) (int, error) {
	ours, err := c.arm(&c.read, c.Conn.SetReadDeadline, !c.listens || c.owed.Load())
	if err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.owed.Store(false)
	}
	return n, c.judge(err, ours)
}

func (c *trackedConn) Write(p []byte) (int, error) {
	c.owed.Store(true)
	ours, err := c.arm(&c.write, c.Conn.SetWriteDeadline, true)
	if err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	return n, c.judge(err, ours)
}

// arm sets the earlier of the outside's deadline and our own, which it returns; the outside's alone if not guarded.
func (c *trackedConn) arm(outside *time.Time, set func(time.Time) error, guarded bool) (ours time.Time, err error) {
	if c.silence == 0 {
		return time.Time{}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !guarded {
		return time.Time{}, set(*outside)
	}
	ours = time.Now().Add(c.silence)
	if at := *outside; !at.IsZero() && at.Before(ours) {
		return ours, set(at)
	}
	return ours, set(ours)
}

// judge gives the connection up when it was our deadline that passed. Closing it at once spares pgx the wait for
// the answer to its farewell.
func (c *trackedConn) judge(err error, ours time.Time) error {
	if ours.IsZero() || !errors.Is(err, os.ErrDeadlineExceeded) || time.Now().Before(ours) {
		return err
	}
	_ = c.Close()
	if c.silent != nil {
		c.silent()
	}
	return errors.Join(errSilent, err)
}

// SetDeadline sets both deadlines.
func (c *trackedConn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read, c.write = t, t
	return c.Conn.SetDeadline(t)
}

// SetReadDeadline sets the deadline of reads.
func (c *trackedConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = t
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline sets the deadline of writes.
func (c *trackedConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.write = t
	return c.Conn.SetWriteDeadline(t)
}

// Close closes the connection.
func (c *trackedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.closed)
	return err
}
