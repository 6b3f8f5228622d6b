package dial_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/fetcherhq/fetcher/dial"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// canary is a listener on loopback that tells who connects.
type canary struct {
	net.Listener
}

func listen(t *testing.T, address string) canary {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Skipf("can't listen on %s: %v", address, err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return canary{l}
}

func (c canary) port() string { return strconv.Itoa(c.Addr().(*net.TCPAddr).Port) }

// untouched fails if anybody has connected: connections are accepted in the order they came, so that the first one
// must be the test's own.
func (c canary) untouched(t *testing.T) {
	t.Helper()
	own, err := net.Dial("tcp", c.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = own.Close() }()
	first, err := c.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	if diff := cmp.Diff(own.LocalAddr().String(), first.RemoteAddr().String()); diff != "" {
		t.Errorf("somebody reached the canary (-own +first):\n%s", diff)
	}
}

// script is a resolver that answers each look-up with the next list, and the last one for ever.
type script struct {
	lists [][]netip.Addr
	calls atomic.Int64
}

func (s *script) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	n := int(s.calls.Add(1))
	return s.lists[min(n, len(s.lists))-1], nil
}

func addrs(list ...string) []netip.Addr {
	out := make([]netip.Addr, 0, len(list))
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

func newGuard(t *testing.T, p dial.Policy, opts ...dial.Option) *dial.Guard {
	t.Helper()
	g, err := dial.NewGuard(p, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A name server that gives a public address to the check and loopback to whoever looks a second time.
func TestRebinding(t *testing.T) {
	t.Parallel()
	c := listen(t, "127.0.0.1:0")
	s := &script{lists: [][]netip.Addr{addrs("8.8.8.8"), addrs("127.0.0.1")}}
	var sockets []string
	stop := net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		sockets = append(sockets, address)
		return errReached
	}}
	g := newGuard(t, dial.Policy{}, dial.WithResolver(s), dial.WithDialer(stop))
	_, err := g.DialContext(t.Context(), "tcp", net.JoinHostPort("rebind.example.com", c.port()))
	if !errors.Is(err, errReached) {
		t.Errorf("dialled the checked address: %v", err)
	}
	if diff := cmp.Diff([]string{"8.8.8.8:" + c.port()}, sockets); diff != "" {
		t.Error(diff)
	}
	if n := s.calls.Load(); n != 1 {
		t.Errorf("%d look-ups", n)
	}
	_, err = g.DialContext(t.Context(), "tcp", net.JoinHostPort("rebind.example.com", c.port()))
	if !errors.Is(err, dial.ErrNotAllowed) {
		t.Errorf("second dial, now to loopback: %v", err)
	}
	c.untouched(t)
}

func TestMixedAnswersAreRefused(t *testing.T) {
	t.Parallel()
	c := listen(t, "127.0.0.1:0")
	for _, list := range [][]string{
		{"127.0.0.1"}, {"127.0.0.1", "8.8.8.8"}, {"8.8.8.8", "127.0.0.1"}, {"8.8.8.8", "::ffff:127.0.0.1"},
		{"8.8.8.8", "1.1.1.1", "64:ff9b::7f00:1"}, {"2606:4700::1", "fd00::1"}, {"8.8.8.8", "fe80::1"}, {"8.8.8.8", "::1"},
		{"1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4", "1.1.1.5", "1.1.1.6", "1.1.1.7", "1.1.1.8", "1.1.1.9", "10.0.0.1"},
	} {
		for _, network := range []string{"tcp", "tcp4", "tcp6"} {
			g := guard(t, dial.Policy{}, &script{lists: [][]netip.Addr{addrs(list...)}})
			_, err := g.DialContext(t.Context(), network, net.JoinHostPort("mixed.example.com", c.port()))
			if !errors.Is(err, dial.ErrNotAllowed) {
				t.Errorf("%v over %s: %v", list, network, err)
			}
		}
	}
	c.untouched(t)
}

func TestLoopbackIsDialledWhereAllowed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		listen, network, host string
		policy                dial.Policy
		answers               []netip.Addr
	}{
		{"127.0.0.1:0", "tcp", "127.0.0.1", dial.Policy{AllowPrivate: true}, nil},
		{"127.0.0.1:0", "tcp4", "::ffff:127.0.0.1", dial.Policy{AllowPrivate: true}, nil},
		{"127.0.0.1:0", "tcp", "127.0.0.1", dial.Policy{Allow: []string{"127.0.0.0/8"}}, nil},
		{"127.0.0.1:0", "tcp", "localhost", dial.Policy{Allow: []string{"127.0.0.0/8"}}, addrs("127.0.0.1")},
		{"127.0.0.1:0", "tcp", "db.internal", dial.Policy{Allow: []string{"db.internal"}}, addrs("127.0.0.1")},
		{"127.0.0.1:0", "tcp4", "db.example.com", dial.Policy{AllowPrivate: true}, addrs("::1", "127.0.0.1")},
		{"[::1]:0", "tcp", "::1", dial.Policy{AllowPrivate: true}, nil},
		{"[::1]:0", "tcp6", "db.example.com", dial.Policy{AllowPrivate: true}, addrs("127.0.0.1", "::1")},
	} {
		l := listen(t, c.listen)
		g := newGuard(t, c.policy, dial.WithResolver(&script{lists: [][]netip.Addr{c.answers}}))
		conn, err := g.DialContext(t.Context(), c.network, net.JoinHostPort(c.host, l.port()))
		if err != nil {
			t.Errorf("%s over %s: %v", c.host, c.network, err)
			continue
		}
		peer, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err = peer.Write([]byte("hello")); err == nil {
			err = peer.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(conn); err != nil || string(got) != "hello" {
			t.Errorf("%s: read %q, %v", c.host, got, err)
		}
		_ = conn.Close()
	}
}

func TestSystemResolver(t *testing.T) {
	t.Parallel()
	l := listen(t, "127.0.0.1:0")
	conn, err := newGuard(t, dial.Policy{AllowPrivate: true}).DialContext(t.Context(), "tcp4", "localhost:"+l.port())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if _, err = newGuard(t, dial.Policy{}).DialContext(t.Context(), "tcp", "localhost:"+l.port()); !errors.Is(err, dial.ErrNotAllowed) {
		t.Errorf("localhost under the strict policy: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err = newGuard(t, dial.Policy{AllowPrivate: true}).DialContext(ctx, "tcp", "no-such-name.invalid:5432")
	if !errors.Is(err, dial.ErrNameNotFound) {
		t.Errorf("unknown name: %v", err)
	}
}

// The first answer refuses the connection, the second one takes it.
func TestNextAnswerIsTried(t *testing.T) {
	t.Parallel()
	l := listen(t, "127.0.0.1:0")
	s := &script{lists: [][]netip.Addr{addrs("127.0.0.2", "127.0.0.1")}} // nobody listens on 127.0.0.2
	conn, err := newGuard(t, dial.Policy{AllowPrivate: true}, dial.WithResolver(s)).DialContext(t.Context(), "tcp", "db.example.com:"+l.port())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if got := conn.RemoteAddr().(*net.TCPAddr).IP.String(); got != "127.0.0.1" {
		t.Errorf("connected to %s", got)
	}
}

func TestRefusedConnectionKeepsItsCause(t *testing.T) {
	t.Parallel()
	l := listen(t, "127.0.0.1:0")
	port := l.port()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := newGuard(t, dial.Policy{AllowPrivate: true}).DialContext(t.Context(), "tcp", "127.0.0.1:"+port)
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v", err)
	}
	if err != nil && (strings.Contains(err.Error(), "127.0.0.1") || strings.Contains(err.Error(), port)) {
		t.Errorf("the error quotes the address: %v", err)
	}
}

// An answer that never replies gets its share of the time, and the next one still has its turn.
func TestSilentAnswerLeavesTimeForTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var waited time.Duration
		var sockets []string
		d := net.Dialer{ControlContext: func(ctx context.Context, _, address string, _ syscall.RawConn) error {
			sockets = append(sockets, address)
			if len(sockets) == 1 {
				<-ctx.Done()
				waited = time.Since(start)
				return ctx.Err()
			}
			return errReached
		}}
		s := &script{lists: [][]netip.Addr{addrs("8.8.8.8", "1.1.1.1")}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := newGuard(t, dial.Policy{}, dial.WithResolver(s), dial.WithDialer(d)).DialContext(ctx, "tcp", "db.example.com:5432")
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the first failure is reported: %v", err)
		}
		if diff := cmp.Diff([]string{"8.8.8.8:5432", "1.1.1.1:5432"}, sockets); diff != "" {
			t.Error(diff)
		}
		if waited != 5*time.Second {
			t.Errorf("the first answer had %v of 10s", waited)
		}
	})
}

func TestAttemptsAreBounded(t *testing.T) {
	t.Parallel()
	list := make([]netip.Addr, 0, 200)
	for i := range 200 {
		list = append(list, netip.AddrFrom4([4]byte{8, 8, 8, byte(i)}))
	}
	tries := 0
	d := net.Dialer{Control: func(string, string, syscall.RawConn) error { tries++; return errReached }}
	g := newGuard(t, dial.Policy{}, dial.WithResolver(&script{lists: [][]netip.Addr{list}}), dial.WithDialer(d))
	if _, err := g.DialContext(t.Context(), "tcp", "many.example.com:1"); !errors.Is(err, errReached) {
		t.Error(err)
	}
	if tries != 8 {
		t.Errorf("%d attempts", tries)
	}
}

// failing is a resolver that fails, or hangs until the caller gives up when err is nil.
type failing struct{ err error }

func (f failing) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	if f.err != nil {
		return nil, f.err
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestFailedLookupIsNeverAllowed(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]dial.Resolver{
		"no such host":   failing{&net.DNSError{Err: "no such host", Name: "db.example.com", Server: "10.0.0.53:53", IsNotFound: true}},
		"server failure": failing{&net.DNSError{Err: "server misbehaving", Name: "db.example.com", Server: "10.0.0.53:53", IsTemporary: true}},
		"no answer":      &script{lists: [][]netip.Addr{nil}},
		"zero address":   &script{lists: [][]netip.Addr{{netip.Addr{}}}},
	} {
		_, err := guard(t, dial.Policy{AllowPrivate: true}, r).DialContext(t.Context(), "tcp", "db.example.com:5432")
		want := dial.ErrNameNotFound
		if name == "zero address" {
			want = dial.ErrNotAllowed
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if strings.Contains(err.Error(), "example.com") || strings.Contains(err.Error(), "10.0.0.53") {
			t.Errorf("%s: the error quotes a name or address: %v", name, err)
		}
	}
}

func TestContextEndsLookupAndDial(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := guard(t, dial.Policy{}, failing{}).DialContext(ctx, "tcp", "db.example.com:5432")
		if !errors.Is(err, dial.ErrNameNotFound) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("hanging look-up: %v", err)
		}
		start := time.Now()
		_, err = guard(t, dial.Policy{}, failing{}).DialContext(t.Context(), "tcp", "db.example.com:5432")
		if !errors.Is(err, dial.ErrNameNotFound) || time.Since(start) != 30*time.Second {
			t.Errorf("without a deadline: %v after %v", err, time.Since(start))
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := listen(t, "127.0.0.1:0")
	_, err := newGuard(t, dial.Policy{AllowPrivate: true}).DialContext(ctx, "tcp", "127.0.0.1:"+l.port())
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	l.untouched(t)
}

func TestOnlyTCPAddressesAreDialled(t *testing.T) {
	t.Parallel()
	g := guard(t, dial.Policy{AllowPrivate: true}, answers{})
	for _, c := range [][2]string{
		{"unix", "/var/run/postgresql/.s.PGSQL.5432"}, {"udp", "8.8.8.8:53"}, {"ip", "8.8.8.8"}, {"tcp", "8.8.8.8"},
		{"tcp", "8.8.8.8:0"}, {"tcp", "8.8.8.8:65536"}, {"tcp", "8.8.8.8:postgresql"}, {"tcp", "8.8.8.8:"}, {"tcp", ":5432"},
		{"tcp", ""}, {"", "8.8.8.8:53"}, {"tcp", "[::1]"}, {"tcp", "8.8.8.8:-1"}, {"tcp", "8.8.8.8:+1"},
	} {
		if _, err := g.DialContext(t.Context(), c[0], c[1]); !errors.Is(err, dial.ErrNotAllowed) {
			t.Errorf("%v: %v", c, err)
		}
	}
}
