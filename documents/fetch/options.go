package fetch

import (
	"cmp"
	"context"
	"net"
	"net/netip"

	"github.com/fetcherhq/fetcher/dial"
)

func setDefaults(o *Options) {
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	o.UserAgent = cmp.Or(o.UserAgent, DefaultUserAgent)
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, DefaultConnectTimeout)
	o.TLSTimeout = cmp.Or(o.TLSTimeout, DefaultTLSTimeout)
	o.HeaderTimeout = cmp.Or(o.HeaderTimeout, DefaultHeaderTimeout)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.MaxHeaderBytes = cmp.Or(o.MaxHeaderBytes, DefaultMaxHeaderBytes)
	o.MaxBody = cmp.Or(o.MaxBody, DefaultMaxBody)
}

// rooted asks for names as they stand: without the dot, a search list could send the question somewhere else first.
type rooted struct{ dial.Resolver }

func (r rooted) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	return r.Resolver.LookupNetIP(ctx, network, host+".")
}
