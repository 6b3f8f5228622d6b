package webtest

import (
	"net"
	"strconv"
	"sync"
	"testing"
)

// Canary is a port that nobody may connect to: the test that owns it fails if anybody does.
type Canary struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu   sync.Mutex
	from []string
}

// NewCanary listens on the host, an address of 127.0.0.0/8 or ::1, and the port; 0 takes any.
func NewCanary(tb testing.TB, host string, port int) *Canary {
	tb.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		tb.Fatalf("webtest: canary: %v", err)
	}
	c := &Canary{listener: listener}
	c.wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			c.mu.Lock()
			c.from = append(c.from, conn.RemoteAddr().String())
			c.mu.Unlock()
			_ = conn.Close()
		}
	})
	tb.Cleanup(func() {
		c.Silent(tb)
		_ = listener.Close()
		c.wg.Wait()
	})
	return c
}

// Port returns the port the canary sits on.
func (c *Canary) Port() int { return portOf(c.listener) }

// Silent fails the test if anybody has connected so far. Connections are accepted in the order they came: it connects
// itself and looks at who came before.
func (c *Canary) Silent(tb testing.TB) {
	tb.Helper()
	own, err := net.Dial("tcp", c.listener.Addr().String())
	if err != nil {
		tb.Errorf("webtest: canary: %v", err)
		return
	}
	defer func() { _ = own.Close() }()
	_, _ = own.Read(make([]byte, 1)) // ends when the canary has noted and closed it
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.from) == 0 || c.from[0] != own.LocalAddr().String() {
		tb.Errorf("webtest: somebody reached the canary: %v", c.from)
	}
	c.from = c.from[:0]
}
