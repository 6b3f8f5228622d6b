package dial_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/fetcherhq/fetcher/dial"
)

// verdict is what a policy says of a host.
type verdict string

const (
	public  verdict = "public"  // dialled under every policy
	private verdict = "private" // dialled where private ranges are
	never   verdict = "never"   // dialled under no policy
)

// addresses is the table of address forms. Every row is judged as a literal host and as the answer of a resolver.
func addresses() map[string]verdict {
	return map[string]verdict{
		// Public.
		"8.8.8.8": public, "1.1.1.1": public, "223.255.255.255": public, "172.15.255.255": public, "172.32.0.0": public,
		"100.63.255.255": public, "100.128.0.0": public, "192.167.255.255": public, "192.169.0.0": public,
		"11.0.0.0": public, "126.255.255.255": public, "128.0.0.1": public, "198.17.255.255": public, "198.20.0.0": public,
		"169.253.255.255": public, "169.255.0.0": public, "192.0.1.1": public, "168.63.129.15": public,
		"2606:4700:4700::1111": public, "2a00:1450::1": public, "2001:4860:4860::8888": public,
		"::ffff:8.8.8.8": public, "64:ff9b::8.8.8.8": public,

		// Loopback, private, shared, special-purpose.
		"127.0.0.1": private, "127.255.255.254": private, "::1": private,
		"10.0.0.1": private, "10.255.255.255": private, "172.16.0.1": private, "172.31.255.255": private,
		"192.168.0.1": private, "100.64.0.1": private, "100.127.255.255": private, "fc00::1": private, "fd12:3456::1": private,
		"0.0.0.1": private, "0.1.2.3": private, "192.0.0.1": private, "192.0.2.1": private, "198.18.0.1": private,
		"198.19.255.255": private, "198.51.100.7": private, "203.0.113.9": private, "192.88.99.1": private,
		"192.31.196.1": private, "192.52.193.1": private, "192.175.48.1": private, "240.0.0.1": private,
		"255.255.255.254": private, "100::1": private, "2001:db8::1": private, "2001:2::1": private, "2001:10::1": private,
		"2001:20::1": private, "2620:4f:8000::1": private, "3fff::1": private, "5f00::1": private, "fec0::1": private,
		"4000::1": private, "::2": private, "64:ff9b:1::1.1.1.1": private, "2002:808:808::1": private,

		// Forms of private IPv4 addresses.
		"::ffff:127.0.0.1": private, "::ffff:7f00:1": private, "::ffff:10.0.0.1": private, "::ffff:c0a8:1": private,
		"::127.0.0.1": private, "::ffff:0:10.0.0.1": private, "2002:7f00:1::": private, "2002:a00:1::1": private,
		"64:ff9b::10.0.0.1": private, "64:ff9b::7f00:1": private, "64:ff9b::c0a8:101": private,
		"64:ff9b:1::10.0.0.1": private, "64:ff9b:1:a00:0:100::": private,
		"2001:0:4136:e378:8000:63bf:f5ff:fffe": private, // Teredo, client 10.0.0.1
		"2001:0:a00:1:8000:63bf:3fff:fdd2":     private, // Teredo, server 10.0.0.1
		"2606:4700::5efe:10.0.0.1":             private, // ISATAP
		"2606:4700::200:5efe:127.0.0.1":        private,

		// Unspecified, multicast, broadcast, link-local, metadata.
		"0.0.0.0": never, "::": never, "::ffff:0.0.0.0": never, "224.0.0.1": never, "239.255.255.255": never,
		"255.255.255.255": never, "ff02::1": never, "ff0e::1": never, "169.254.0.1": never, "169.254.255.255": never,
		"fe80::1": never, "febf::1": never, "fe80::1%eth0": never, "2606:4700::1%eth0": never,
		"169.254.169.254": never, "169.254.170.2": never, "169.254.170.23": never, "168.63.129.16": never,
		"100.100.100.200": never, "192.0.0.192": never, "fd00:ec2::254": never, "fd00:ec2::23": never,
		"fd20:ce::254": never, "fd00:c1::a9fe:a9fe": never, "fd00:42::42": never,

		// Forms of those.
		"::ffff:169.254.169.254": never, "::ffff:a9fe:a9fe": never, "::169.254.169.254": never,
		"::ffff:0:169.254.169.254": never, "2002:a9fe:a9fe::1": never, "64:ff9b::169.254.169.254": never,
		"64:ff9b::a83f:8110": never, "64:ff9b:1::169.254.169.254": never, "64:ff9b:1:a9fe:a9:fe00::": never,
		"64:ff9b:1:12a9:fe:a9fe::": never, "64:ff9b:1:1234:a9:fea9:fe00:0": never,
		"2001:0:4136:e378:8000:63bf:5601:5601": never, // Teredo, client 169.254.169.254
		"2606:4700::5efe:169.254.169.254":      never, "2606:4700::200:5efe:a9fe:a9fe": never,
		"64:ff9b::0.0.0.0": never, "64:ff9b::224.0.0.1": never,
	}
}

var errReached = errors.New("the socket was about to connect")

// answers is a resolver that knows some names.
type answers map[string][]netip.Addr

func (a answers) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if list, ok := a[host]; ok {
		return list, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// guard dials nothing: a socket that may connect ends with errReached before its first packet.
func guard(t testing.TB, p dial.Policy, r dial.Resolver) *dial.Guard {
	t.Helper()
	stop := net.Dialer{Control: func(string, string, syscall.RawConn) error { return errReached }}
	g, err := dial.NewGuard(p, dial.WithResolver(r), dial.WithDialer(stop))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func dialed(t *testing.T, g *dial.Guard, host string) error {
	t.Helper()
	conn, err := g.DialContext(t.Context(), "tcp", net.JoinHostPort(host, "5432"))
	if err == nil {
		_ = conn.Close()
		t.Fatalf("%s: connected", host)
	}
	if strings.Contains(err.Error(), host) {
		t.Errorf("the error quotes the address: %v", err)
	}
	return err
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for text, want := range addresses() {
		names := answers{"db.example.com": {netip.MustParseAddr(text)}}
		for _, p := range []struct {
			policy  dial.Policy
			allowed bool
		}{
			{dial.Policy{}, want == public},
			{dial.Policy{AllowPrivate: true}, want != never},
			{dial.Policy{Allow: []string{"0.0.0.0/0", "::/0"}}, want != never},
			{dial.Policy{Allow: []string{"db.example.com"}}, want == public}, // as a literal
			{dial.Policy{AllowPrivate: true, Allow: []string{"other.example.com"}}, want == public},
		} {
			g := guard(t, p.policy, names)
			if got := g.CheckHost(text); (got == nil) != p.allowed || (got != nil && !errors.Is(got, dial.ErrNotAllowed)) {
				t.Errorf("%s under %+v: %v", text, p.policy, got)
			}
			wantErr := errReached
			if !p.allowed {
				wantErr = dial.ErrNotAllowed
			}
			if got := dialed(t, g, text); !errors.Is(got, wantErr) {
				t.Errorf("%s dialled under %+v: %v", text, p.policy, got)
			}
		}
		for policy, allowed := range map[string]bool{"db.example.com": want != never, ".example.com": want != never, "10.9.8.7": want == public} {
			got := dialed(t, guard(t, dial.Policy{Allow: []string{policy}}, names), "db.example.com")
			if errors.Is(got, errReached) != allowed || errors.Is(got, dial.ErrNotAllowed) == allowed {
				t.Errorf("name with answer %s under %s: %v", text, policy, got)
			}
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]verdict{
		"db.example.com": public, "DB.Example.COM": public, "db.example.com.": public, "my_db.example.com": public, "db": public,
		"localhost.example.com": public, "notlocal": public, "internal.example.com": public, "xn--bcher-kva.example": public,
		"mylocalhost": public, "1.example": public, "0x7f.example": public, "123abc": public, "local.host": public,

		"localhost": private, "LOCALHOST": private, "localhost.": private, "db.localhost": private, "a.b.LocalHost": private,
		"printer.local": private, "local": private, "vault.internal": private, "internal": private, "db.Internal.": private,
		"db.svc.cluster.local": private, "cluster.local": private, "host.docker.internal": private,

		"metadata.google.internal": never, "Metadata.Google.Internal.": never, "metadata.goog": never,
		// Numbers in disguise.
		"2852039166": never, "0xa9fea9fe": never, "0XA9FEA9FE": never, "0251.0376.0251.0376": never, "127.1": never,
		"127.0.1": never, "0x7f.1": never, "0x7f.0.0.0x1": never, "017700000001": never, "1.2.3.4.5": never, "256.1.1.1": never,
		"127.0.0.1.": never, "127.0.0.01": never, "0x": never, "db.1": never, "db.0x1f": never, "00000010": never,
		// No hosts at all.
		"": never, ".": never, "[::1]": never, "[127.0.0.1]": never, "a..b": never, ".example.com": never, "-a.example": never,
		"a-.example": never, "a b": never, "127.0.0.1 ": never, "a/b": never, "user@host": never, "host:1": never, "a%00b": never,
		"bücher.example": never, "１２７.0.0.1": never, "a\x00b": never, strings.Repeat("a", 64): never, "a\n": never,
		strings.Repeat("abc.", 63) + "abc": never,
	} {
		names := answers{host: {netip.MustParseAddr("8.8.8.8")}}
		for _, p := range []struct {
			policy  dial.Policy
			allowed bool
		}{
			{dial.Policy{}, want == public},
			{dial.Policy{AllowPrivate: true}, want != never},
			{dial.Policy{Allow: []string{"8.8.8.8"}}, want == public},
		} {
			g := guard(t, p.policy, names)
			if got := g.CheckHost(host); (got == nil) != p.allowed || (got != nil && !errors.Is(got, dial.ErrNotAllowed)) {
				t.Errorf("%q under %+v: %v", host, p.policy, got)
			}
			if host == "[127.0.0.1]" {
				continue // as an address with a port, the brackets are legal
			}
			conn, err := g.DialContext(t.Context(), "tcp", net.JoinHostPort(host, "5432"))
			if err == nil {
				_ = conn.Close()
				t.Fatalf("%q connected", host)
			}
			if errors.Is(err, errReached) != p.allowed || errors.Is(err, dial.ErrNotAllowed) == p.allowed {
				t.Errorf("%q dialled under %+v: %v", host, p.policy, err)
			}
		}
	}
}

func TestAllowList(t *testing.T) {
	t.Parallel()
	names := answers{
		"db.corp.internal": {netip.MustParseAddr("10.1.2.3")}, "db.svc.cluster.local": {netip.MustParseAddr("10.96.0.7")},
		"svc.cluster.local": {netip.MustParseAddr("10.96.0.7")}, "evil.example.com": {netip.MustParseAddr("10.1.2.3")},
		"localhost": {netip.MustParseAddr("127.0.0.1")}, "db.localhost": {netip.MustParseAddr("127.0.0.1")},
		"meta.svc.cluster.local": {netip.MustParseAddr("169.254.169.254")}, "DB.Corp.Internal.": {netip.MustParseAddr("10.1.2.3")},
	}
	for _, c := range []struct {
		allow, host string
		ok          bool
	}{
		{"10.0.0.0/8", "10.1.2.3", true},
		{"10.0.0.0/8", "::ffff:10.1.2.3", true},
		{"10.0.0.0/8", "64:ff9b::10.1.2.3", true},
		{"10.0.0.0/8", "11.1.2.3", true},
		{"10.0.0.0/8", "192.168.1.1", false},
		{"10.0.0.0/8", "127.0.0.1", false},
		{"10.1.2.3/8", "10.200.0.1", true},
		{"10.1.2.3", "10.1.2.3", true},
		{"10.1.2.3", "10.1.2.4", false},
		{"::ffff:10.1.2.3", "10.1.2.3", true},
		{"fd00::/8", "fd00::1", true},
		{"fd00::/8", "fd00:ec2::254", false},
		{"169.254.0.0/16", "169.254.169.254", false},
		{"168.63.129.16", "168.63.129.16", false},
		{"2002::/16", "2002:a00:1::1", false}, // its block is listed, what it embeds is not
		{"64:ff9b::/96", "64:ff9b::10.0.0.1", false},
		{"10.0.0.0/8", "evil.example.com", true},
		{"10.0.0.0/8", "db.corp.internal", false},
		{"db.corp.internal", "db.corp.internal", true},
		{"DB.corp.Internal.", "DB.Corp.Internal.", true},
		{"db.corp.internal", "evil.example.com", false},
		{"db.corp.internal", "10.1.2.3", false},
		{".svc.cluster.local", "db.svc.cluster.local", true},
		{".svc.cluster.local", "svc.cluster.local", false},
		{".svc.cluster.local", "meta.svc.cluster.local", false},
		{".internal", "metadata.google.internal", false},
		{"127.0.0.0/8", "localhost", true},
		{"127.0.0.0/8", "db.localhost", true},
		{"::1", "127.0.0.1", false},
		{"localhost", "localhost", true},
		{"localhost", "db.localhost", false},
		{"localhost", "127.0.0.1", false},
		{" 10.1.2.3 ", "10.1.2.3", true},
	} {
		got := dialed(t, guard(t, dial.Policy{Allow: []string{c.allow}}, names), c.host)
		if errors.Is(got, errReached) != c.ok || errors.Is(got, dial.ErrNotAllowed) == c.ok {
			t.Errorf("%s under the list %s: %v", c.host, c.allow, got)
		}
	}
}

func TestAllowListRefusesNonsense(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{
		"", " ", ".", "10.0.0.0/33", "10.0.0.0/", "a/8", "127.1", "0x7f.1", "*.example.com", "[::1]", "fe80::1%eth0", "a b",
		"::ffff:10.0.0.0/104", "host:5432", "..a",
	} {
		if _, err := dial.NewGuard(dial.Policy{Allow: []string{entry}}); err == nil {
			t.Errorf("%q accepted", entry)
		}
	}
}

// Whatever form an IPv4 address takes, it is judged no milder than in its plain form.
func TestFormsAreJudgedAsTheirAddress(t *testing.T) {
	t.Parallel()
	strict, mild := guard(t, dial.Policy{}, answers{}), guard(t, dial.Policy{AllowPrivate: true}, answers{})
	interesting := rapid.SampledFrom([]uint32{0x7f000001, 0x0a000001, 0xa9fea9fe, 0xc0a80101, 0x64400001, 0xa83f8110, 0xe0000001})
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.OneOf(rapid.Uint32(), interesting).Draw(t, "address")
		q := [4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}
		plain := netip.AddrFrom4(q).String()
		for name, b := range map[string][16]byte{
			"mapped":     {10: 0xff, 11: 0xff, 12: q[0], 13: q[1], 14: q[2], 15: q[3]},
			"compatible": {12: q[0], 13: q[1], 14: q[2], 15: q[3]},
			"translated": {8: 0xff, 9: 0xff, 12: q[0], 13: q[1], 14: q[2], 15: q[3]},
			"6to4":       {0: 0x20, 1: 0x02, 2: q[0], 3: q[1], 4: q[2], 5: q[3]},
			"nat64":      {1: 0x64, 2: 0xff, 3: 0x9b, 12: q[0], 13: q[1], 14: q[2], 15: q[3]},
			"nat64 /48":  {1: 0x64, 2: 0xff, 3: 0x9b, 5: 1, 6: q[0], 7: q[1], 9: q[2], 10: q[3]},
			"nat64 /96":  {1: 0x64, 2: 0xff, 3: 0x9b, 5: 1, 12: q[0], 13: q[1], 14: q[2], 15: q[3]},
			"teredo":     {0: 0x20, 1: 0x01, 4: 8, 5: 8, 6: 8, 7: 8, 12: ^q[0], 13: ^q[1], 14: ^q[2], 15: ^q[3]},
			"isatap":     {0: 0x26, 1: 0x06, 10: 0x5e, 11: 0xfe, 12: q[0], 13: q[1], 14: q[2], 15: q[3]},
		} {
			form := netip.AddrFrom16(b).String()
			if strict.CheckHost(plain) != nil && strict.CheckHost(form) == nil {
				t.Fatalf("%s form %s of %s is allowed", name, form, plain)
			}
			if v > 1 && mild.CheckHost(plain) != nil && mild.CheckHost(form) == nil {
				t.Fatalf("%s form %s of %s is allowed where private ranges are", name, form, plain)
			}
		}
	})
}

func FuzzCheckHost(f *testing.F) {
	for text := range addresses() {
		f.Add(text)
	}
	f.Add("localhost")
	f.Add("0x7f.1")
	strict := guard(f, dial.Policy{}, answers{})
	f.Fuzz(func(t *testing.T, host string) {
		if strict.CheckHost(host) != nil {
			return
		}
		if !dial.ValidHost(host) {
			t.Fatalf("%q is no host and allowed", host)
		}
		a, err := netip.ParseAddr(host)
		if err != nil {
			return
		}
		a = a.Unmap()
		if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() {
			t.Fatalf("%q is allowed", host)
		}
	})
}
