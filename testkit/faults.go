package testkit

import (
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// Wire passes bytes between clients and a TCP server until it is cut.
type Wire struct {
	listener net.Listener
	target   string
	work     sync.WaitGroup

	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

// NewWire returns a wire to the server at target, a host and port, that goes away with tb.
func NewWire(tb testing.TB, target string) *Wire {
	tb.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("testkit: %v", err)
	}
	w := &Wire{listener: listener, target: target}
	w.work.Go(w.serve)
	tb.Cleanup(func() {
		_ = listener.Close()
		w.Cut()
		w.work.Wait()
	})
	return w
}

// Address is where clients find the server through the wire.
func (w *Wire) Address() string { return w.listener.Addr().String() }

// Cut closes every connection, and refuses new ones until Mend.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = true
	for _, c := range w.conns {
		_ = c.Close()
	}
	w.conns = nil
}

// Mend undoes Cut.
func (w *Wire) Mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = false
}

func (w *Wire) serve() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.connect(client)
	}
}

func (w *Wire) connect(client net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut {
		_ = client.Close()
		return
	}
	server, err := net.Dial("tcp", w.target)
	if err != nil {
		_ = client.Close()
		return
	}
	w.conns = append(w.conns, client, server)
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_, _ = to.Close(), from.Close()
	}
	w.work.Go(func() { pass(server, client) })
	w.work.Go(func() { pass(client, server) })
}

// Faulty passes requests to an HTTP server and makes half of them fail while it is told to: some before the server sees
// them, some after it has done what was asked.
type Faulty struct {
	URL string

	failing atomic.Bool
	Failed  atomic.Int64 // requests
}

// NewFaulty returns a faulty way to the server at target that goes away with tb. It does not fail yet.
func NewFaulty(tb testing.TB, target string) *Faulty {
	tb.Helper()
	to, err := url.Parse(target)
	if err != nil {
		tb.Fatalf("testkit: %v", err)
	}
	f := &Faulty{}
	proxy := &httputil.ReverseProxy{
		// The host stays as the client has signed it.
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = to.Scheme, to.Host },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.WriteHeader(http.StatusBadGateway) // the client left
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fault := rand.IntN(4)
		if !f.failing.Load() || fault >= 2 {
			proxy.ServeHTTP(w, r)
			return
		}
		f.Failed.Add(1)
		if fault == 1 {
			proxy.ServeHTTP(httptest.NewRecorder(), r)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	tb.Cleanup(server.Close)
	f.URL = server.URL
	return f
}

// Fail begins to fail, or ends it.
func (f *Faulty) Fail(failing bool) { f.failing.Store(failing) }
