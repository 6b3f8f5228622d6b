package tds

import (
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Encryption is what the server says about encryption.
type Encryption int

// What servers are configured to.
const (
	Available   Encryption = iota // as servers are out of the box: the login at least, all of it if the client asks
	Unsupported                   // no TLS at all
	Required                      // all of it, or no connection
	Strict                        // TLS before the first byte, as TDS 8.0 has it
)

// Options configure a server. The zero value lets anybody in, with a certificate that nobody knows.
type Options struct {
	User       string // with Password: who may log in; empty: anybody
	Password   string
	Database   string // the only database; empty: any
	Encryption Encryption
	TLS        *tls.Config // with a certificate; nil: a new one signed by itself
	Silent     bool        // accept connections and never answer
	RouteHost  string      // send clients that have logged in there, to RoutePort
	RoutePort  int
}

// Server is a scripted server.
type Server struct {
	t        testing.TB
	opts     Options
	listener net.Listener
	running  sync.WaitGroup

	mu         sync.Mutex
	closed     bool
	conns      map[net.Conn]struct{}
	script     []entry
	requests   []Request
	logins     []Login
	attentions int
	changed    chan struct{} // closed and replaced whenever something of the above arrives
}

// Match tells whether an answer is for a request.
type Match func(Request) bool

// Statement matches requests with exactly that text.
func Statement(sql string) Match { return func(r Request) bool { return r.SQL == sql } }

// Containing matches requests whose text contains part.
func Containing(part string) Match {
	return func(r Request) bool { return strings.Contains(r.SQL, part) }
}

type entry struct {
	match  Match
	answer Answer
}

// New starts a server on the loopback interface. It ends with the test.
func New(t testing.TB, opts Options) *Server {
	t.Helper()
	if opts.TLS == nil && opts.Encryption != Unsupported {
		opts.TLS = selfSigned(t)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, opts: opts, listener: listener, conns: make(map[net.Conn]struct{}), changed: make(chan struct{})}
	s.running.Go(s.accept)
	t.Cleanup(s.close)
	return s
}

// Host is the address the server listens on.
func (s *Server) Host() string { return s.address().IP.String() }

// Port is the port the server listens on.
func (s *Server) Port() int { return s.address().Port }

func (s *Server) address() *net.TCPAddr { return s.listener.Addr().(*net.TCPAddr) } //nolint:forcetypeassert // we made it

// Handle answers the requests that match. What was said last comes first. A request that nothing matches is answered
// as a statement without a result.
func (s *Server) Handle(match Match, answer Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = append(s.script, entry{match, answer})
}

func (s *Server) answer(r Request) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range slices.Backward(s.script) {
		if e.match(r) {
			return e.answer
		}
	}
	return Answer{}
}

// Requests returns what arrived so far, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Logins returns the logins that arrived so far, refused ones too.
func (s *Server) Logins() []Login {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.logins)
}

// Attentions counts the requests to cancel that arrived so far.
func (s *Server) Attentions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attentions
}

// Open counts the connections that the client has not closed.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// waitLimit is far more than anything takes that happens at all.
const waitLimit = 2 * time.Minute

// Wait returns once condition holds, and fails the test if that is never. It looks whenever something has arrived or a
// connection has ended.
func (s *Server) Wait(condition func() bool) {
	limit := time.NewTimer(waitLimit)
	defer limit.Stop()
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if condition() {
			return
		}
		select {
		case <-changed:
		case <-limit.C:
			s.t.Error("tds: waited in vain")
			return
		}
	}
}

// note records something under the lock and wakes who waits.
func (s *Server) note(record func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	record()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Server) accept() {
	for {
		raw, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.note(func() {
			if s.closed {
				_ = raw.Close()
				return
			}
			s.conns[raw] = struct{}{}
		})
		s.running.Go(func() {
			defer s.note(func() { delete(s.conns, raw) })
			defer func() { _ = raw.Close() }()
			s.serve(raw)
		})
	}
}

func (s *Server) close() {
	_ = s.listener.Close()
	s.note(func() {
		s.closed = true
		for conn := range s.conns {
			_ = conn.Close()
		}
	})
	s.running.Wait()
}

// serve runs one connection.
func (s *Server) serve(raw net.Conn) {
	if s.opts.Silent {
		_, _ = raw.Read(make([]byte, 1<<16))
		_, _ = raw.Read(make([]byte, 1)) // until the client gives up
		return
	}
	c := &conn{server: s, raw: raw, wire: raw, packet: defaultPacket}
	if err := c.handshake(); err != nil {
		return
	}
	if err := c.login(); err != nil {
		return
	}
	c.loop()
}

// fault fails the test: the script can't be played.
func (s *Server) fault(err error) {
	if !errors.Is(err, net.ErrClosed) {
		s.t.Errorf("tds: %v", err)
	}
}
