// Package fetch owns the one request that is sent to an approved web origin and the judgement of its answer.
//
// It touches the network through the guarded dialer only. It promises that one Fetch is one look-up, one connection
// and one request to exactly the URL it was given; that a body is returned only if it arrived whole; and that no error
// holds an address or a word of the origin's.
package fetch

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/net/http2"

	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/documents/weburl"
)

// The defaults of Options.
const (
	DefaultUserAgent      = "Fetcher-Documents/1.0"
	DefaultConnectTimeout = 5 * time.Second
	DefaultTLSTimeout     = 5 * time.Second
	DefaultHeaderTimeout  = 10 * time.Second
	DefaultTimeout        = 30 * time.Second
	DefaultMaxHeaderBytes = 64 << 10
	DefaultMaxBody        = 8 << 20
)

// Options say how a Client fetches. The zero Options reach public addresses only and apply the defaults.
type Options struct {
	// Policy says which private addresses may be reached. Special-purpose blocks of IANA are refused whatever it says.
	Policy dial.Policy
	// Resolver looks names up; nil is the system's. It is asked for rooted names ("docs.example.com."), so that no
	// search list applies.
	Resolver dial.Resolver
	// RootCAs are the authorities that origins are verified by; nil are the system's.
	RootCAs   *x509.CertPool
	UserAgent string

	ConnectTimeout time.Duration // look-up and connection together
	TLSTimeout     time.Duration
	HeaderTimeout  time.Duration // from the request to the end of the answer's header
	Timeout        time.Duration // the whole of it
	MaxHeaderBytes int           // all of an answer's header, interim answers included
	MaxBody        int           // decoded bytes
}

// Response is an answer that holds: 200 with a whole body, or the 304 that was asked for.
type Response struct {
	NotModified  bool
	DeclaredType string // Content-Type as the origin wrote it, at most 255 visible ASCII characters and spaces; "" if absent
	Body         []byte // decoded; never nil unless NotModified
	ETag         string // a strong entity tag with its quotes, or ""
	Size         int64  // of Body
}

// Client fetches. It keeps no connections and no state, and is safe for concurrent use.
type Client struct {
	opts  Options
	guard *dial.Guard
	h2    *http2.Transport //nolint:staticcheck // see newHTTP2
}

// New returns a client, or an error that names the entry of the policy that can't be read.
func New(o Options) (*Client, error) {
	setDefaults(&o)
	policy := o.Policy
	policy.RefuseSpecial = true
	guard, err := dial.NewGuard(policy, dial.WithResolver(rooted{o.Resolver}))
	if err != nil {
		return nil, fmt.Errorf("guard of web documents: %w", err)
	}
	h2, err := newHTTP2(o.MaxHeaderBytes)
	if err != nil {
		return nil, err
	}
	return &Client{opts: o, guard: guard, h2: h2}, nil
}

// Fetch gets the page. etag, if it is a strong entity tag, makes the request conditional. The error is an *Error, or
// wraps ctx's own if that ended first.
func (c *Client) Fetch(ctx context.Context, u weburl.URL, etag string) (*Response, error) {
	whole, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	res, err := c.fetch(whole, u, etag)
	switch {
	case err == nil:
		return res, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("fetch: %w", ctx.Err())
	case whole.Err() != nil:
		return nil, timedOut(err)
	}
	return nil, err
}

func (c *Client) fetch(ctx context.Context, u weburl.URL, etag string) (*Response, error) {
	if !strong(etag) {
		etag = ""
	}
	conn, err := c.connect(ctx, u.Origin())
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // ends whatever waits for the origin
	defer stop()

	req, err := c.request(ctx, u, etag)
	if err != nil {
		return nil, err
	}
	res, err := c.exchange(ctx, conn, req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	if err := judge(res.StatusCode, etag != ""); err != nil {
		return nil, err
	}
	return c.receive(conn, res)
}

// request is the whole of what the origin learns.
func (c *Client) request(ctx context.Context, u weburl.URL, etag string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, &Error{Code: ProtocolError, Reason: "the URL can't be sent"}
	}
	req.Header.Set("User-Agent", c.opts.UserAgent)
	req.Header.Set("Accept", "*/*")
	req.Header.Set("Accept-Encoding", "identity")
	if etag != "" {
		req.Header.Set("If-None-Match", etag)
	}
	return req, nil
}
