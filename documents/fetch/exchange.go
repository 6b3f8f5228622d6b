package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/textproto"

	"golang.org/x/net/http2"
)

const (
	// maxInterim bounds how many interim answers (1xx) are read past.
	maxInterim = 16
	// receiveBuffer bounds what HTTP/2 holds of a body before it is read.
	receiveBuffer = 256 << 10
)

var (
	errInterim = errors.New("too many interim answers, or another protocol")
	errBroken  = errors.New("connection broken")
)

// exchange sends the request and returns the final answer's header, within the time for it.
func (c *Client) exchange(ctx context.Context, conn *connection, req *http.Request) (*http.Response, error) {
	wait, cancel := context.WithTimeout(ctx, c.opts.HeaderTimeout)
	defer cancel()
	stop := context.AfterFunc(wait, func() { _ = conn.Close() })
	send := c.http1
	if conn.ConnectionState().NegotiatedProtocol == http2.NextProtoTLS {
		send = c.http2
	}
	res, err := send(conn, req)
	if !stop() {
		err = context.Cause(wait) // the connection is closed already
	}
	switch {
	case err == nil:
		return res, nil
	case res != nil:
		_ = res.Body.Close()
	}
	if wait.Err() != nil {
		return nil, &Error{Code: Timeout, Reason: "the answer took too long to begin"}
	}
	if errors.Is(err, errBroken) {
		return nil, &Error{Code: Unavailable, Reason: "the connection broke before an answer"}
	}
	return nil, &Error{Code: ProtocolError, Reason: "the answer is not HTTP as it is allowed here"}
}

// newHTTP2 returns a transport for connections that are handed to it: it dials nothing, and no proxy is asked. It is the
// one of x/net, deprecated in favour of net/http's, because that takes no connection but its own and has no types for
// its errors: whether an origin went away or broke the rules could be read off their words only.
func newHTTP2(maxHeaderBytes int) (*http2.Transport, error) { //nolint:staticcheck // as above
	t, err := http2.ConfigureTransports(&http.Transport{ //nolint:staticcheck // as above
		DisableCompression:     true,
		MaxResponseHeaderBytes: int64(maxHeaderBytes),
		HTTP2:                  &http.HTTP2Config{MaxReceiveBufferPerStream: receiveBuffer, MaxReceiveBufferPerConnection: 2 * receiveBuffer},
	})
	if err != nil {
		return nil, fmt.Errorf("set up HTTP/2: %w", err)
	}
	return t, nil
}

func (c *Client) http2(conn *connection, req *http.Request) (*http.Response, error) {
	client, err := c.h2.NewClientConn(conn) //nolint:staticcheck // see newHTTP2
	if err != nil {
		return nil, fmt.Errorf("start HTTP/2: %w", errors.Join(errBroken, err)) // it couldn't write its preface
	}
	interim := 0
	trace := &httptrace.ClientTrace{Got1xxResponse: func(status int, _ textproto.MIMEHeader) error {
		if interim++; status == http.StatusSwitchingProtocols || interim > maxInterim {
			return errInterim
		}
		return nil
	}}
	res, err := client.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	if err != nil && withheld(conn, err) {
		err = errors.Join(errBroken, err)
	}
	return res, err
}

// withheld tells an HTTP/2 origin that didn't answer from one that answered against the rules.
func withheld(conn *connection, err error) bool {
	if stream, ok := errors.AsType[http2.StreamError](err); ok {
		switch stream.Code {
		case http2.ErrCodeNo, http2.ErrCodeInternal, http2.ErrCodeRefusedStream, http2.ErrCodeCancel, http2.ErrCodeEnhanceYourCalm:
			return true
		}
		return false
	}
	if _, ok := errors.AsType[http2.GoAwayError](err); ok { //nolint:staticcheck // see newHTTP2
		return true
	}
	_, broke := errors.AsType[http2.ConnectionError](err)
	return !broke && conn.ended() != nil
}
