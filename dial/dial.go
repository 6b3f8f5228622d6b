package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"
)

const (
	// maxAttempts bounds how many answers of one name are tried: a tenant's name server decides how many there are.
	maxAttempts = 8
	// defaultTimeout bounds look-up and connect together when the caller's context has no deadline.
	defaultTimeout = 30 * time.Second
	// minAttempt is the least time one answer gets while there is that much left.
	minAttempt = 2 * time.Second
)

// DialContext connects to address ("host:port") over TCP. The name is looked up once; if one of its answers may not be
// dialled, none is. Answers are tried in turn, each within its share of the time left. Errors are ErrNotAllowed,
// ErrNameNotFound, or those of net behind a text without addresses; ctx's own error stays visible to errors.Is.
func (g *Guard) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := splitAddress(network, address)
	if err != nil {
		return nil, err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, defaultTimeout)
		defer cancel()
	}
	addrs, trusted, err := g.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	for _, a := range addrs {
		if err := g.checkAddr(a, trusted); err != nil {
			return nil, err
		}
	}
	return g.dialFirst(ctx, ofFamily(network, addrs), port, trusted)
}

// splitAddress takes the address apart and refuses what is no TCP address.
func splitAddress(network, address string) (string, uint16, error) {
	if network != "tcp" && network != "tcp4" && network != "tcp6" {
		return "", 0, notAllowed("not TCP")
	}
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, notAllowed("not an address with a port")
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil || port == 0 {
		return "", 0, notAllowed("not a port")
	}
	return host, uint16(port), nil
}

// resolve returns the addresses of the host, not yet judged, and whether the list names it.
func (g *Guard) resolve(ctx context.Context, host string) (addrs []netip.Addr, trusted bool, err error) {
	if addr, parseErr := netip.ParseAddr(host); parseErr == nil {
		return []netip.Addr{addr}, false, nil
	}
	if err = g.checkName(host); err != nil {
		return nil, false, err
	}
	addrs, err = g.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil || len(addrs) == 0 {
		return nil, false, nameNotFound(err)
	}
	return addrs, g.listed(canonicalName(host)), nil
}

// ofFamily keeps the addresses that the network can reach, IPv4-mapped ones as IPv4.
func ofFamily(network string, addrs []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range addrs {
		a = a.Unmap()
		if network == "tcp" || a.Is4() == (network == "tcp4") {
			out = append(out, a)
		}
	}
	return out[:min(len(out), maxAttempts)]
}

// dialFirst returns the first connection that succeeds, or the first failure: answers come best first.
func (g *Guard) dialFirst(ctx context.Context, addrs []netip.Addr, port uint16, trusted bool) (net.Conn, error) {
	var first error
	for i, a := range addrs {
		conn, err := g.dialOne(ctx, netip.AddrPortFrom(a, port), len(addrs)-i, trusted)
		if err == nil {
			return conn, nil
		}
		if errors.Is(err, ErrNotAllowed) {
			return nil, notAllowed("address of the socket")
		}
		if ctx.Err() != nil {
			return nil, connectFailed(err)
		}
		if first == nil {
			first = err
		}
	}
	if first == nil {
		return nil, nameNotFound(nil) // no answer of the family asked for
	}
	return nil, connectFailed(first)
}

// dialOne connects to one judged address, within its share of the time left for it and the attempts behind it.
func (g *Guard) dialOne(ctx context.Context, addr netip.AddrPort, attempts int, trusted bool) (net.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok && attempts > 1 {
		left := time.Until(deadline)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(left/time.Duration(attempts), min(left, minAttempt)))
		defer cancel()
	}
	dialer := g.dialer
	dialer.ControlContext = g.control(trusted)
	dialer.Control = nil // called by the guard's own
	return dialer.DialContext(ctx, "tcp", addr.String())
}

// control judges the address of the socket itself, right before it connects.
func (g *Guard) control(trusted bool) func(context.Context, string, string, syscall.RawConn) error {
	return func(ctx context.Context, network, address string, c syscall.RawConn) error {
		addr, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("judge the socket: %w", notAllowed("not an IP address"))
		}
		if err := g.checkAddr(addr.Addr(), trusted); err != nil {
			return err
		}
		switch {
		case g.dialer.ControlContext != nil:
			return g.dialer.ControlContext(ctx, network, address, c)
		case g.dialer.Control != nil:
			return g.dialer.Control(network, address, c)
		}
		return nil
	}
}
