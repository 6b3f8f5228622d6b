package dial_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/fetcherhq/fetcher/dial"
)

// Special-purpose blocks stay closed to a list that opens everything; private ones are the list's business.
func TestRefuseSpecial(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]verdict{
		"8.8.8.8": public, "2606:4700:4700::1111": public, "::ffff:8.8.8.8": public,
		"127.0.0.1": private, "::1": private, "10.0.0.1": private, "172.16.0.1": private, "192.168.1.1": private, "100.64.0.1": private,
		"fd00::1": private, "::ffff:10.0.0.1": private,
		"0.0.0.1": never, "192.0.0.1": never, "192.0.2.1": never, "192.31.196.1": never, "192.52.193.1": never, "192.88.99.1": never,
		"192.175.48.1": never, "198.18.0.1": never, "198.51.100.1": never, "203.0.113.1": never, "240.0.0.1": never,
		"64:ff9b::8.8.8.8": never, "64:ff9b::10.0.0.1": never, "64:ff9b:1::1.1.1.1": never, "100::1": never, "2001::1": never,
		"2001:20::1": never, "2001:db8::1": never, "2002:808:808::1": never, "2620:4f:8000::1": never, "3fff::1": never, "5f00::1": never,
		"::2": never, "4000::1": never, "2606:4700::5efe:203.0.113.1": never, "169.254.169.254": never, "fe80::1": never,
	} {
		names := answers{"db.example.com": {netip.MustParseAddr(addr)}}
		for _, p := range []struct {
			policy  dial.Policy
			allowed bool
		}{
			{dial.Policy{RefuseSpecial: true}, want == public},
			{dial.Policy{RefuseSpecial: true, AllowPrivate: true}, want != never},
			{dial.Policy{RefuseSpecial: true, Allow: []string{"0.0.0.0/0", "::/0"}}, want != never},
			{dial.Policy{RefuseSpecial: true, Allow: []string{"db.example.com"}}, want != never},
			{dial.Policy{RefuseSpecial: true, Allow: []string{addr}}, want != never},
		} {
			err := dialed(t, guard(t, p.policy, names), "db.example.com")
			if errors.Is(err, errReached) != p.allowed || errors.Is(err, dial.ErrNotAllowed) == p.allowed {
				t.Errorf("%s under %+v: %v", addr, p.policy, err)
			}
		}
	}
}
