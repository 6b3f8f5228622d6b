package fetch

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
)

// maxTrailer bounds what may follow a chunked body.
const maxTrailer = 4 << 10

var errHeaderTooLarge = errors.New("header too large")

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
		res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(header)), req)
		switch {
		case err != nil:
			return nil, err
		case res.ProtoMajor != 1 || res.StatusCode == http.StatusSwitchingProtocols:
			return nil, errInterim
		case res.StatusCode >= http.StatusOK || res.StatusCode < http.StatusContinue:
			res.Body = bodyOf(res, from)
			return res, nil
		}
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

// bodyOf returns the body of an answer whose header has been read. One that only the end of the connection delimits is
// empty: nobody may read it. To close a body is nothing: whatever is left of it goes with the connection.
func bodyOf(res *http.Response, from *bufio.Reader) io.ReadCloser {
	switch {
	case len(res.TransferEncoding) > 0: // no other than chunked is understood
		return io.NopCloser(&chunked{body: httputil.NewChunkedReader(from), from: from})
	case res.ContentLength > 0:
		return io.NopCloser(io.LimitReader(from, res.ContentLength))
	}
	return http.NoBody
}

// chunked reads a chunked body with the trailer behind it: without that, the body is not finished.
type chunked struct {
	body io.Reader
	from *bufio.Reader
}

func (c *chunked) Read(p []byte) (int, error) {
	n, err := c.body.Read(p)
	if !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return n, err
	}
	if _, trailer := readHeader(c.from, maxTrailer); errors.Is(trailer, errBroken) {
		return n, io.ErrUnexpectedEOF
	} else if trailer != nil {
		return n, trailer
	}
	return n, io.EOF
}
