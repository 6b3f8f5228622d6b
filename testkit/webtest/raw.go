package webtest

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Script plays the server's part of one connection. The connection is closed when it returns.
type Script func(c *RawConn)

// RawConn is the server's end of one connection: the TLS layer, or plain TCP for servers of NewPlain.
type RawConn struct {
	net.Conn

	tcp    *net.TCPConn
	reader *bufio.Reader
	done   <-chan struct{}
}

// ReadRequest reads up to the end of the request's header and returns it, or what came of it.
func (c *RawConn) ReadRequest() string {
	var request []byte
	for {
		line, err := c.reader.ReadSlice('\n')
		request = append(request, line...)
		if err != nil || len(line) <= len("\r\n") {
			return string(request)
		}
	}
}

// Send writes the text as it is. It reports whether the client is still there.
func (c *RawConn) Send(text string) bool {
	_, err := io.WriteString(c.Conn, text)
	return err == nil
}

// Drip writes the text byte by byte, waiting between them, until it is out, the client has gone or the test is over.
func (c *RawConn) Drip(text string, every time.Duration) {
	for i := range len(text) {
		if !c.Send(text[i : i+1]) {
			return
		}
		select {
		case <-time.After(every):
		case <-c.done:
			return
		}
	}
}

// Stall waits until the client goes or the test is over.
func (c *RawConn) Stall() {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, c.reader)
	}()
	select {
	case <-gone:
	case <-c.done:
		_ = c.tcp.Close()
		<-gone
	}
}

// Reset ends the connection with a TCP reset.
func (c *RawConn) Reset() {
	_ = c.tcp.SetLinger(0)
	_ = c.tcp.Close()
}

// Cut ends the connection without TLS's farewell: what a failing middlebox, or an attacker, can do.
func (c *RawConn) Cut() { _ = c.tcp.Close() }

// Raw is a server on 127.0.0.1 whose every connection runs the same script.
type Raw struct {
	listener net.Listener
	done     chan struct{}
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	count int
}

// NewRaw starts a TLS server, with a certificate as NewOrigin's, that offers the protocols by ALPN (none: none). The
// script starts after the handshake; connections whose handshake fails run none.
func NewRaw(tb testing.TB, ca *CA, script Script, protocols ...string) *Raw {
	tb.Helper()
	config := &tls.Config{
		Certificates: []tls.Certificate{ca.issueDefault(tb)}, MinVersion: tls.VersionTLS12, NextProtos: protocols,
	}
	return start(tb, func(tcp *net.TCPConn, done <-chan struct{}) {
		conn := tls.Server(tcp, config)
		if conn.Handshake() != nil {
			return
		}
		script(&RawConn{conn, tcp, bufio.NewReader(conn), done})
		_ = conn.Close()
	})
}

// NewPlain starts a server without TLS, for scripts that stall or break the handshake.
func NewPlain(tb testing.TB, script Script) *Raw {
	tb.Helper()
	return start(tb, func(tcp *net.TCPConn, done <-chan struct{}) {
		script(&RawConn{tcp, tcp, bufio.NewReader(tcp), done})
	})
}

// Port returns the port the server listens on.
func (r *Raw) Port() int { return portOf(r.listener) }

func portOf(l net.Listener) int {
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		panic("webtest: not a TCP listener")
	}
	return addr.Port
}

// URL returns the URL of a path that starts with a slash.
func (r *Raw) URL(path string) string {
	return "https://" + net.JoinHostPort(Host, strconv.Itoa(r.Port())) + path
}

// Connections returns how many connections were accepted so far.
func (r *Raw) Connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

func start(tb testing.TB, serve func(*net.TCPConn, <-chan struct{})) *Raw {
	tb.Helper()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		tb.Fatalf("webtest: %v", err)
	}
	r := &Raw{listener: listener, done: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	r.wg.Go(func() {
		for {
			conn, err := listener.AcceptTCP()
			if err != nil {
				return
			}
			r.track(conn)
			r.wg.Go(func() {
				defer r.untrack(conn)
				serve(conn, r.done)
			})
		}
	})
	tb.Cleanup(r.stop)
	return r
}

func (r *Raw) track(conn net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	r.conns[conn] = struct{}{}
}

func (r *Raw) untrack(conn net.Conn) {
	_ = conn.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, conn)
}

func (r *Raw) stop() {
	close(r.done)
	_ = r.listener.Close()
	r.mu.Lock()
	for conn := range r.conns {
		_ = conn.Close()
	}
	r.mu.Unlock()
	r.wg.Wait()
}
