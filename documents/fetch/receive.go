package fetch

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"

	"golang.org/x/net/http2"
)

const (
	maxType = 255
	maxETag = 1024
)

// judge returns the error a status stands for, or nil for the two that are answers.
func judge(status int, conditional bool) error {
	fail := func(code Code, reason string) error {
		return &Error{Code: code, UpstreamStatus: status, Reason: reason}
	}
	switch {
	case status == http.StatusOK, status == http.StatusNotModified && conditional:
		return nil
	case status == http.StatusNotModified:
		return fail(ProtocolError, "the origin answered a condition that wasn't set")
	case status >= 300 && status <= 399:
		return fail(RedirectRefused, "the origin redirects, which is never followed")
	case status == http.StatusTooManyRequests, status >= 500 && status <= 599:
		return fail(Unavailable, "the origin can't answer at present")
	case status >= 400 && status <= 499:
		return fail(UpstreamRefused, "the origin refuses to serve the page")
	}
	return fail(ProtocolError, "the origin answered with an unexpected status")
}

// receive reads the body of a judged answer.
func (c *Client) receive(conn *connection, res *http.Response) (*Response, error) {
	out := &Response{ETag: strongTag(res.Header)}
	if res.StatusCode == http.StatusNotModified {
		out.NotModified = true
		return out, nil
	}
	var err error
	if out.DeclaredType, err = declaredType(res.Header); err == nil {
		out.Body, err = c.body(conn, res)
	}
	if err != nil {
		if e, ok := errors.AsType[*Error](err); ok {
			e.UpstreamStatus = res.StatusCode
		}
		return nil, err
	}
	out.Size = int64(len(out.Body))
	return out, nil
}

func (c *Client) body(conn *connection, res *http.Response) ([]byte, error) {
	if res.ProtoMajor == 1 && res.ContentLength < 0 && len(res.TransferEncoding) == 0 {
		return nil, &Error{Code: Incomplete, Reason: "only the end of the connection ends the body, which a cut would too"}
	}
	compressed, err := isGzip(res.Header)
	if err != nil {
		return nil, err
	}
	limit := c.opts.MaxBody
	if compressed {
		limit += limit/64 + 1024 // what gzip may add to what it can't compress
	}
	if res.ContentLength > int64(limit) {
		return nil, tooLarge()
	}
	wire := &counted{from: res.Body, limit: int64(limit)}
	var body []byte
	if compressed {
		body, err = c.unzip(wire)
	} else {
		body, err = readAll(wire, c.opts.MaxBody, int(res.ContentLength))
	}
	switch {
	case errors.Is(err, errOverLimit):
		return nil, tooLarge()
	case wire.err != nil && !errors.Is(wire.err, io.EOF):
		return nil, bodyError(conn, res, wire)
	case err != nil:
		return nil, &Error{Code: Incomplete, Reason: "the compressed body is damaged or cut short"}
	case res.ContentLength >= 0 && wire.n != res.ContentLength:
		return nil, &Error{Code: Incomplete, Reason: "the body is shorter than announced"}
	}
	return body, nil
}

// bodyError tells a body that was cut from one that is malformed. HTTP/1.1's readers pass on what ended the connection,
// apart from its regular end; what they find themselves is an error of their own.
func bodyError(conn *connection, res *http.Response, wire *counted) error {
	malformed := !errors.Is(wire.err, io.ErrUnexpectedEOF) && !errors.Is(wire.err, conn.ended())
	if res.ProtoMajor == 2 {
		_, malformed = errors.AsType[http2.ConnectionError](wire.err)
		malformed = malformed || errors.Is(wire.err, http2.ErrFrameTooLarge)
		malformed = malformed || wire.n == res.ContentLength // it is whole, and still not at its end
	}
	if malformed {
		return &Error{Code: ProtocolError, Reason: "the body is not framed as HTTP demands"}
	}
	return &Error{Code: Incomplete, Reason: "the body broke off"}
}

func (c *Client) unzip(wire io.Reader) ([]byte, error) {
	from, err := gzip.NewReader(wire)
	if err != nil {
		return nil, err
	}
	return readAll(from, c.opts.MaxBody, -1)
}

// isGzip reports whether the body is compressed, and refuses what it could be encoded with besides.
func isGzip(h http.Header) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(strings.Join(h.Values("Content-Encoding"), ","))) {
	case "", "identity":
		return false, nil
	case "gzip", "x-gzip":
		return true, nil
	}
	return false, &Error{Code: ProtocolError, Reason: "the body has a coding that wasn't asked for"}
}

func declaredType(h http.Header) (string, error) {
	values := h.Values("Content-Type")
	if len(values) == 0 {
		return "", nil
	}
	declared := values[0]
	switch {
	case len(values) > 1:
		return "", &Error{Code: ProtocolError, Reason: "the answer declares more than one type"}
	case len(declared) > maxType || strings.ContainsFunc(declared, func(r rune) bool { return r < ' ' || r > '~' }):
		return "", &Error{Code: UnsupportedType, Reason: "the declared type is too long or not ASCII"}
	}
	return declared, nil
}

// strongTag returns the entity tag of an answer if it has one and it is strong.
func strongTag(h http.Header) string {
	if values := h.Values("ETag"); len(values) == 1 && strong(values[0]) {
		return values[0]
	}
	return ""
}

// strong reports whether the tag is a strong one of RFC 9110, 8.8.3, in ASCII and of a length worth keeping.
func strong(tag string) bool {
	if len(tag) < 2 || len(tag) > maxETag || tag[0] != '"' || tag[len(tag)-1] != '"' {
		return false
	}
	return !strings.ContainsFunc(tag[1:len(tag)-1], func(r rune) bool { return r <= ' ' || r == '"' || r > '~' })
}

func tooLarge() error { return &Error{Code: TooLarge, Reason: "the body is larger than allowed"} }
