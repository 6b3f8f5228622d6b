package testkit

import (
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
)

// Proxy passes bytes to a server, until it is told to cut its connections or to fall silent. It ends with its test.
type Proxy struct {
	Host string
	Port int

	listener net.Listener
	target   string
	work     sync.WaitGroup

	mu     sync.Mutex
	speaks chan struct{} // closed while bytes pass
	armed  bool          // the budget counts
	budget int           // bytes from the server that still pass
	spent  func()        // what happens then
	conns  map[net.Conn]struct{}
	closed bool
}

// NewProxy starts a proxy before the server at an address host:port.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("testkit: proxy: %v", err)
	}
	host, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		tb.Fatalf("testkit: proxy: %v", err)
	}
	p := &Proxy{Host: host, listener: listener, target: target, speaks: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	p.Port, _ = strconv.Atoi(port)
	close(p.speaks)
	p.work.Go(p.serve)
	tb.Cleanup(p.close)
	return p
}

// CutAfter closes every connection once the server has sent n bytes more.
func (p *Proxy) CutAfter(n int) { p.arm(n, p.Cut) }

// HushAfter falls silent once the server has sent n bytes more.
func (p *Proxy) HushAfter(n int) { p.arm(n, p.Hush) }

// Cut closes every connection. New ones may be made.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// Hush takes everything from now on and passes nothing on, either way.
func (p *Proxy) Hush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.speaks:
		p.speaks = make(chan struct{})
	default:
	}
}

// Speak ends the silence.
func (p *Proxy) Speak() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.speaks:
	default:
		close(p.speaks)
	}
}

func (p *Proxy) arm(n int, then func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed, p.budget, p.spent = true, n, then
}

func (p *Proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Speak()
	p.Cut()
	p.work.Wait()
}

func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = struct{}{}, struct{}{}
		closed := p.closed
		p.mu.Unlock()
		if closed {
			_, _ = client.Close(), server.Close()
			return
		}
		p.work.Go(func() { p.pass(gate{p: p, dst: server}, server, client) })
		p.work.Go(func() { p.pass(gate{p: p, dst: client, counts: true}, client, server) })
	}
}

func (p *Proxy) pass(to gate, dst, src net.Conn) {
	_, _ = io.Copy(to, src) // however it ended, both ends go
	_, _ = dst.Close(), src.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, dst)
	delete(p.conns, src)
}

// gate is where bytes pass, or wait.
type gate struct {
	p      *Proxy
	dst    io.Writer
	counts bool // these bytes are the server's
}

func (g gate) Write(b []byte) (int, error) {
	pass, spent := g.p.admit(len(b), g.counts)
	<-g.p.silence()
	if n, err := g.dst.Write(b[:pass]); err != nil {
		return n, err
	}
	if spent == nil {
		return len(b), nil
	}
	spent()
	<-g.p.silence()
	n, err := g.dst.Write(b[pass:])
	return pass + n, err
}

func (p *Proxy) silence() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.speaks
}

// admit takes n bytes off the budget. It returns how many of them pass before what spent does.
func (p *Proxy) admit(n int, counts bool) (pass int, spent func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !counts || !p.armed {
		return n, nil
	}
	if n < p.budget {
		p.budget -= n
		return n, nil
	}
	p.armed = false
	return p.budget, p.spent
}
