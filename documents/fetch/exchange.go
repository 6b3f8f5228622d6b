package fetch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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
	errHeaderTooLarge = errors.New("header too large")
	errInterim        = errors.New("too many interim answers, or another protocol")
	errBroken         = errors.New("connection broken")
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

// newHTTP2 returns a transport for connections that are handed to it: it dials nothing, and no proxy is asked.
func newHTTP2(maxHeaderBytes int) (*http2.Transport, error) {
	t, err := http2.ConfigureTransports(&http.Transport{
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
	client, err := c.h2.NewClientConn(conn)
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
	if _, ok := errors.AsType[http2.GoAwayError](err); ok {
		return true
	}
	_, broke := errors.AsType[http2.ConnectionError](err)
	return !broke && conn.ended() != nil
}

// http1 speaks HTTP/1.1. It is written out because net/http's client hides what matters here: how a body was delimited,
// where a header went over its limit, and whether the bytes or the connection were at fault.
func (c *Client) http1(conn *connection, req *http.Request) (*http.Response, error) {
	req.Close = true
	if err := req.Write(conn); err != nil {
		return nil, fmt.Errorf("write request: %w", errors.Join(errBroken, err))
	}
	from := bufio.NewReader(conn)
	left := c.opts.MaxHeaderBytes
	for range maxInterim + 1 {
		header, err := readHeader(from, left)
		if err != nil {
			return nil, err
		}
		left -= len(header)
		res, err := http.ReadResponse(bufio.NewReader(io.MultiReader(bytes.NewReader(header), from)), req)
		switch {
		case err != nil:
			return nil, err
		case res.ProtoMajor != 1 || res.StatusCode == http.StatusSwitchingProtocols:
			return nil, errInterim
		case res.StatusCode >= http.StatusOK || res.StatusCode < http.StatusContinue:
			return res, nil
		}
		_ = res.Body.Close()
	}
	return nil, errInterim
}

// readHeader reads up to the empty line that ends a header, at most limit bytes.
func readHeader(from *bufio.Reader, limit int) ([]byte, error) {
	var header []byte
	begun := false // the line, which is longer than the reader's buffer
	for {
		part, err := from.ReadSlice('\n')
		if len(header)+len(part) > limit {
			return nil, errHeaderTooLarge
		}
		header = append(header, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			begun = true
		case err != nil:
			return nil, fmt.Errorf("read header: %w", errors.Join(errBroken, err))
		case !begun && len(bytes.Trim(part, "\r\n")) == 0:
			return header, nil
		default:
			begun = false
		}
	}
}
