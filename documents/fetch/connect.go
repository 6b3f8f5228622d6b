package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"sync"

	"golang.org/x/net/http2"

	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/documents/weburl"
)

// connection is a verified TLS connection that remembers what ended it, so that what a connection did can be told
// from what was wrong with the bytes that came over it.
type connection struct {
	*tls.Conn

	mu    sync.Mutex
	fault error
}

func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil && !errors.Is(err, net.ErrClosed) { // closed is what we did ourselves
		c.mu.Lock()
		c.fault = err
		c.mu.Unlock()
	}
	return n, err
}

// ended returns what ended the connection, if the origin or the network has.
func (c *connection) ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fault
}

// connect looks the origin up, connects and shakes hands.
func (c *Client) connect(ctx context.Context, o weburl.Origin) (*connection, error) {
	tcp, err := c.dial(ctx, net.JoinHostPort(o.Host(), strconv.Itoa(o.Port())))
	if err != nil {
		return nil, err
	}
	conn := tls.Client(tcp, &tls.Config{
		ServerName: o.Host(), RootCAs: c.opts.RootCAs, MinVersion: tls.VersionTLS12,
		NextProtos: []string{http2.NextProtoTLS, "http/1.1"},
	})
	shake, cancel := context.WithTimeout(ctx, c.opts.TLSTimeout)
	defer cancel()
	if err := conn.HandshakeContext(shake); err != nil {
		_ = tcp.Close()
		if shake.Err() != nil {
			return nil, &Error{Code: Timeout, Reason: "the TLS handshake took too long"}
		}
		return nil, &Error{Code: Unavailable, Reason: "the TLS handshake failed"}
	}
	return &connection{Conn: conn}, nil
}

func (c *Client) dial(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.ConnectTimeout)
	defer cancel()
	conn, err := c.guard.DialContext(ctx, "tcp", address)
	if err == nil {
		return conn, nil
	}
	var network net.Error
	switch {
	case errors.Is(err, dial.ErrNotAllowed):
		return nil, &Error{Code: DestinationRefused, Reason: "the host may not be connected to"}
	case errors.Is(err, dial.ErrNameNotFound):
		return nil, &Error{Code: Unavailable, Reason: "the host's name can't be resolved"}
	case ctx.Err() != nil, errors.As(err, &network) && network.Timeout():
		return nil, &Error{Code: Timeout, Reason: "connecting took too long"}
	}
	return nil, &Error{Code: Unavailable, Reason: "the host can't be connected to"}
}

// timedOut is err after the time for the whole fetch has run out.
func timedOut(err error) error {
	out := &Error{Code: Timeout, Reason: "the fetch took too long"}
	if e, ok := errors.AsType[*Error](err); ok {
		if e.Code == DestinationRefused { // known before anything could take time
			return e
		}
		out.UpstreamStatus = e.UpstreamStatus
	}
	return out
}
