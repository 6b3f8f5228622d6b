package dial

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

const (
	reasonMetadata = "metadata service"
	reasonSpecial  = "special-purpose address"
)

// block is a range of addresses with the reason it is refused for.
type block struct {
	prefix netip.Prefix
	reason string
}

// ranges is what the guard knows about addresses, whatever the policy.
type ranges struct {
	refused []block // by every policy
	private []block // unless the policy admits them

	globalUnicast, compatible, translated, nat64, nat64Local, teredo, sixToFour netip.Prefix
}

func newRanges() *ranges {
	return &ranges{
		refused: slices.Concat(
			blocks("unspecified address", "0.0.0.0/32", "::/128"),
			blocks("multicast or broadcast address", "224.0.0.0/4", "255.255.255.255/32", "ff00::/8"),
			blocks(reasonMetadata, "169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32", "169.254.0.23/32",
				"168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32", "fd00:ec2::254/128", "fd00:ec2::23/128",
				"fd20:ce::254/128", "fd00:c1::a9fe:a9fe/128", "fd00:42::42/128"),
			blocks("link-local address", "169.254.0.0/16", "fe80::/10"),
		),
		private: slices.Concat(
			blocks("loopback address", "127.0.0.0/8", "::1/128"),
			blocks("private address", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"),
			// The special-purpose registries of IANA. IPv6 outside of 2000::/3 is judged by whyPrivate.
			blocks(reasonSpecial, "0.0.0.0/8", "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24",
				"192.88.99.0/24", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
				"2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"),
		),
		globalUnicast: netip.MustParsePrefix("2000::/3"),
		compatible:    netip.MustParsePrefix("::/96"),
		translated:    netip.MustParsePrefix("::ffff:0:0:0/96"),
		nat64:         netip.MustParsePrefix("64:ff9b::/96"),
		nat64Local:    netip.MustParsePrefix("64:ff9b:1::/48"),
		teredo:        netip.MustParsePrefix("2001::/32"),
		sixToFour:     netip.MustParsePrefix("2002::/16"),
	}
}

func blocks(reason string, prefixes ...string) []block {
	out := make([]block, 0, len(prefixes))
	for _, p := range prefixes {
		out = append(out, block{prefix: netip.MustParsePrefix(p), reason: reason})
	}
	return out
}

func find(list []block, a netip.Addr) string {
	for _, b := range list {
		if b.prefix.Contains(a) {
			return b.reason
		}
	}
	return ""
}

// alwaysRefused returns why no policy admits the address, or "".
func (r *ranges) alwaysRefused(a netip.Addr) string { return find(r.refused, a) }

// whyPrivate returns why the address is not a public one, or "".
func (r *ranges) whyPrivate(a netip.Addr) string {
	if reason := find(r.private, a); reason != "" {
		return reason
	}
	if a.Is6() && !r.globalUnicast.Contains(a) && !r.nat64.Contains(a) {
		return reasonSpecial
	}
	return ""
}

// special reports whether the address lies in a special-purpose block of IANA, loopback, private-use, shared and
// unique-local ones excepted.
func (r *ranges) special(a netip.Addr) bool {
	return r.whyPrivate(a) == reasonSpecial || r.nat64.Contains(a)
}

// withEmbedded returns the address, IPv4-mapped ones as IPv4, and the IPv4 addresses that a translator or tunnel
// between here and there would take out of it.
func (r *ranges) withEmbedded(addr netip.Addr) []netip.Addr {
	a := addr.Unmap()
	if a.Is4() || a.IsLoopback() || a.IsUnspecified() {
		return []netip.Addr{a}
	}
	b := a.As16()
	out := []netip.Addr{a}
	switch {
	case r.nat64.Contains(a), r.compatible.Contains(a), r.translated.Contains(a):
		out = append(out, embedded(b[12:]))
	case r.nat64Local.Contains(a):
		out = append(out, embeddedLocal(b)...)
	case r.sixToFour.Contains(a):
		out = append(out, embedded(b[2:]))
	case r.teredo.Contains(a): // the server in clear, the client with all bits flipped
		client := ^binary.BigEndian.Uint32(b[12:])
		out = append(out, embedded(b[4:]), embedded(binary.BigEndian.AppendUint32(nil, client)))
	}
	if isatap := binary.BigEndian.Uint32(b[8:]) &^ 0x02000000; isatap == 0x00005efe {
		out = append(out, embedded(b[12:]))
	}
	return out
}

// embeddedLocal reads an address under the local NAT64 prefix in every layout of RFC 6052, 2.2 that its zeros admit:
// how long the operator of the translator chose the prefix can't be known.
func embeddedLocal(b [16]byte) []netip.Addr {
	var out []netip.Addr
	for _, l := range [][4]int{{6, 7, 9, 10}, {7, 9, 10, 11}, {9, 10, 11, 12}, {12, 13, 14, 15}} {
		v4 := netip.AddrFrom4([4]byte{b[l[0]], b[l[1]], b[l[2]], b[l[3]]})
		end := l[3] + 1
		if v4.IsUnspecified() || !allZero(b[end:]) || (l[0] != 12 && b[8] != 0) {
			continue
		}
		out = append(out, v4)
	}
	return out
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

func embedded(b []byte) netip.Addr { return netip.AddrFrom4([4]byte(b[:4])) }
