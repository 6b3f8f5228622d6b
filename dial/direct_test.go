package dial_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fetcherhq/fetcher/dial"
)

func TestDirectReachesWhatTheGuardRefuses(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	strict, err := dial.NewGuard(dial.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = strict.DialContext(t.Context(), "tcp", address); !errors.Is(err, dial.ErrNotAllowed) {
		t.Errorf("the guard says %v", err)
	}
	conn, err := dial.Direct{}.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	_ = l.Close()
	_, err = dial.Direct{}.DialContext(t.Context(), "tcp", address)
	if !errors.Is(err, syscall.ECONNREFUSED) || strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("a closed port: %v", err)
	}
}

func TestDirectUnknownName(t *testing.T) {
	t.Parallel()
	resolver := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no name server")
	}}
	_, err := dial.Direct{Dialer: net.Dialer{Resolver: resolver, Timeout: 10 * time.Second}}.
		DialContext(t.Context(), "tcp", "canary.example:5432")
	if !errors.Is(err, dial.ErrNameNotFound) || strings.Contains(err.Error(), "canary") {
		t.Errorf("got %v", err)
	}
}
