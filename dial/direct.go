package dial

import (
	"context"
	"errors"
	"net"
)

// Direct dials whatever it is told to, for addresses that no tenant has a say in. The zero value is ready to use, and
// safe for concurrent use.
type Direct struct{ Dialer net.Dialer }

// DialContext connects to address ("host:port"). Errors are ErrNameNotFound, or those of net behind a text without
// addresses; ctx's own error stays visible to errors.Is.
func (d Direct) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, defaultTimeout)
		defer cancel()
	}
	conn, err := d.Dialer.DialContext(ctx, network, address)
	if err == nil {
		return conn, nil
	}
	if unknown, ok := errors.AsType[*net.DNSError](err); ok && ctx.Err() == nil {
		return nil, nameNotFound(unknown)
	}
	return nil, connectFailed(err)
}
