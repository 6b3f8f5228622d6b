package dial

import (
	"errors"
	"net"
	"net/netip"
	"testing"
)

// The address of the socket is judged even if the checks before it were somehow passed by.
func TestSocketIsJudgedAgain(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	g, err := NewGuard(Policy{})
	if err != nil {
		t.Fatal(err)
	}
	target := netip.MustParseAddrPort(l.Addr().String())
	if _, err = g.dialOne(t.Context(), target, 1, false); !errors.Is(err, ErrNotAllowed) {
		t.Errorf("one attempt: %v", err)
	}
	_, err = g.dialFirst(t.Context(), []netip.Addr{target.Addr(), target.Addr()}, target.Port(), false)
	if !errors.Is(err, ErrNotAllowed) {
		t.Errorf("all attempts: %v", err)
	}
	own, err := net.Dial("tcp", l.Addr().String()) // connections are accepted in the order they came
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = own.Close() }()
	first, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	if first.RemoteAddr().String() != own.LocalAddr().String() {
		t.Error("somebody reached the listener")
	}
	if err = g.control(false)(t.Context(), "tcp", "no address", nil); !errors.Is(err, ErrNotAllowed) {
		t.Errorf("unreadable address: %v", err)
	}
}
