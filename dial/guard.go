// Package dial owns the one guarded dialer: it decides which hosts named by tenants may be connected to, and connects.
//
// It touches the resolver and the network only. It promises that a name is looked up once, that every answer is
// judged, that only a judged address is dialled, that the address of the socket is judged again before the first
// packet, and that no error text holds a host or address. Databases that the operator configures are dialled as
// configured, by Direct.
package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Policy says what may be dialled beyond public addresses. Metadata services, unspecified, multicast and link-local
// addresses are refused under every policy. The zero Policy allows public addresses only.
type Policy struct {
	// AllowPrivate admits private and special-purpose ranges and loopback, and the local names. It has no effect when
	// Allow is not empty: the list replaces the default of the mode.
	AllowPrivate bool

	// Allow admits the private addresses it lists, each entry a CIDR, an IP, a host name or a name suffix that starts
	// with a dot (".svc.cluster.local" stands for every name below it). A listed name may resolve to any private
	// address. Loopback addresses in the list admit the names localhost and *.localhost too.
	Allow []string

	// RefuseSpecial refuses IANA's special-purpose blocks even where AllowPrivate or the list admits them, the globally
	// reachable ones and the prefix of NAT64 with them. What it leaves to the two is loopback, private-use, shared and
	// unique-local addresses.
	RefuseSpecial bool
}

// Guard is a policy with the means to dial under it. It is immutable and safe for concurrent use.
type Guard struct {
	ranges       *ranges
	allowPrivate bool
	noSpecial    bool
	prefixes     []netip.Prefix
	names        map[string]struct{}
	suffixes     []string
	resolver     Resolver
	dialer       net.Dialer
}

// Resolver looks names up. *net.Resolver is one.
type Resolver interface {
	// LookupNetIP returns the addresses of host; network is always "ip".
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Option changes how a Guard looks up and dials.
type Option func(*Guard)

// WithResolver replaces the resolver of the system.
func WithResolver(r Resolver) Option { return func(g *Guard) { g.resolver = r } }

// WithDialer sets time-outs, keep-alive and control functions of the connections. A control function of d runs after
// the guard's own check.
func WithDialer(d net.Dialer) Option { return func(g *Guard) { g.dialer = d } }

// NewGuard returns a guard, or an error that names the entry of the list that can't be read.
func NewGuard(p Policy, opts ...Option) (*Guard, error) {
	g := &Guard{
		ranges:       newRanges(),
		allowPrivate: p.AllowPrivate && len(p.Allow) == 0,
		noSpecial:    p.RefuseSpecial,
		names:        map[string]struct{}{},
		resolver:     net.DefaultResolver,
	}
	for _, entry := range p.Allow {
		if err := g.allow(entry); err != nil {
			return nil, fmt.Errorf("allowed host %q: %w", entry, err)
		}
	}
	for _, opt := range opts {
		opt(g)
	}
	return g, nil
}

// CheckHost judges a host without looking it up: an IP literal as its address, a name by the rules for names. It
// returns nil or ErrNotAllowed. A host that is neither (ValidHost) is refused.
func (g *Guard) CheckHost(host string) error {
	if addr, err := netip.ParseAddr(host); err == nil {
		return g.checkAddr(addr, false)
	}
	return g.checkName(host)
}

func (g *Guard) checkName(host string) error {
	if !ValidHost(host) {
		return notAllowed("not a host name")
	}
	name := canonicalName(host)
	switch {
	case slices.Contains(metadataNames(), name):
		return notAllowed(reasonMetadata)
	case g.allowPrivate || g.listed(name):
		return nil
	case below(name, "localhost"):
		if g.listsLoopback() {
			return nil
		}
		return notAllowed("local name")
	case slices.ContainsFunc(localDomains(), func(d string) bool { return below(name, d) }):
		return notAllowed("local name")
	}
	return nil
}

// checkAddr judges an address and every address embedded in it. trusted says that the name it came from is listed.
func (g *Guard) checkAddr(addr netip.Addr, trusted bool) error {
	if !addr.IsValid() || addr.Zone() != "" {
		return notAllowed("no address, or one with a zone")
	}
	for _, a := range g.ranges.withEmbedded(addr) {
		if reason := g.ranges.alwaysRefused(a); reason != "" {
			return notAllowed(reason)
		}
		if g.noSpecial && g.ranges.special(a) {
			return notAllowed(reasonSpecial)
		}
		if reason := g.ranges.whyPrivate(a); reason != "" && !trusted && !g.allowPrivate && !g.listsAddr(a) {
			return notAllowed(reason)
		}
	}
	return nil
}

func (g *Guard) listsAddr(a netip.Addr) bool {
	return slices.ContainsFunc(g.prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

func (g *Guard) listsLoopback() bool {
	return slices.ContainsFunc(g.prefixes, func(p netip.Prefix) bool {
		return p.Contains(netip.IPv6Loopback()) || p.Overlaps(netip.PrefixFrom(netip.AddrFrom4([4]byte{127}), 8))
	})
}

// listed reports whether the canonical name is in the list, by itself or under a suffix.
func (g *Guard) listed(name string) bool {
	if _, ok := g.names[name]; ok {
		return true
	}
	return slices.ContainsFunc(g.suffixes, func(s string) bool { return len(name) > len(s) && strings.HasSuffix(name, s) })
}

// allow adds one entry of the list.
func (g *Guard) allow(entry string) error {
	entry = strings.TrimSpace(entry)
	if strings.Contains(entry, "/") {
		return g.allowPrefix(entry)
	}
	if addr, err := netip.ParseAddr(entry); err == nil {
		if addr.Zone() != "" {
			return errors.New("has a zone")
		}
		addr = addr.Unmap()
		g.prefixes = append(g.prefixes, netip.PrefixFrom(addr, addr.BitLen()))
		return nil
	}
	name, isSuffix := strings.CutPrefix(entry, ".")
	if !ValidHost(name) {
		return errors.New("is no CIDR, IP, host name or .suffix")
	}
	name = canonicalName(name)
	if isSuffix {
		g.suffixes = append(g.suffixes, "."+name)
	} else {
		g.names[name] = struct{}{}
	}
	return nil
}

func (g *Guard) allowPrefix(entry string) error {
	p, err := netip.ParsePrefix(entry)
	if err != nil {
		return errors.New("is no CIDR")
	}
	if p.Addr().Is4In6() {
		return errors.New("is an IPv4 range in IPv6 form; write it as IPv4")
	}
	g.prefixes = append(g.prefixes, p.Masked())
	return nil
}
