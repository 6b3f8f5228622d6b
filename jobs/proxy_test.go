package jobs_test

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// proxy passes bytes to a server until it is hushed: then it takes everything and passes nothing on, either way.
type proxy struct {
	listener net.Listener
	target   string
	work     sync.WaitGroup

	mu     sync.Mutex
	silent chan struct{} // closed while bytes pass
	conns  []net.Conn
}

// newProxy returns a proxy and the address dsn has through it.
func newProxy(t *testing.T, dsn string) (*proxy, string) {
	t.Helper()
	u := must(url.Parse(dsn))
	p := &proxy{listener: must((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")), target: u.Host, silent: make(chan struct{})}
	close(p.silent)
	p.work.Go(p.serve)
	t.Cleanup(func() {
		_ = p.listener.Close()
		p.speak()
		p.mu.Lock()
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.work.Wait()
	})
	u.Host = p.listener.Addr().String()
	return p, u.String()
}

func (p *proxy) serve() {
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
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		p.work.Go(func() { p.pass(server, client) })
		p.work.Go(func() { p.pass(client, server) })
	}
}

func (p *proxy) pass(dst, src net.Conn) {
	defer func() { _, _ = dst.Close(), src.Close() }()
	_, _ = io.Copy(gate{p, dst}, src)
}

// gate lets nothing through while its proxy is hushed.
type gate struct {
	p   *proxy
	dst io.Writer
}

func (g gate) Write(b []byte) (int, error) {
	g.p.mu.Lock()
	silent := g.p.silent
	g.p.mu.Unlock()
	<-silent
	return g.dst.Write(b)
}

func (p *proxy) hush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = make(chan struct{})
}

func (p *proxy) speak() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.silent:
	default:
		close(p.silent)
	}
}
