package fetch_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/fetcherhq/fetcher/documents/fetch"
	"github.com/fetcherhq/fetcher/testkit/webtest"
)

// answer is a script that reads the request, writes the bytes and closes the connection in order.
func answer(bytes string) webtest.Script {
	return func(c *webtest.RawConn) {
		c.ReadRequest()
		c.Send(bytes)
	}
}

// then is answer with another end.
func then(bytes string, end func(*webtest.RawConn)) webtest.Script {
	return func(c *webtest.RawConn) {
		c.ReadRequest()
		c.Send(bytes)
		end(c)
	}
}

func stay(c *webtest.RawConn) { c.Stall() }

const ok = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"

// What HTTP/1.1 servers can do to an answer, byte by byte.
func TestWire(t *testing.T) {
	t.Parallel()
	reset, cut := (*webtest.RawConn).Reset, (*webtest.RawConn).Cut
	long := strings.Repeat("a", 60<<10)
	filled := func(size int) string { // a whole header of the size
		head := ok + "Content-Length: 2\r\nX-Fill: \r\n\r\n"
		return ok + "Content-Length: 2\r\nX-Fill: " + strings.Repeat("a", size-len(head)) + "\r\n\r\nhi"
	}
	for name, c := range map[string]struct {
		script webtest.Script
		want   string
	}{
		// Good ones.
		"length":               {answer(ok + "Content-Length: 2\r\n\r\nhi"), ""},
		"length, then cut":     {then(ok+"Content-Length: 2\r\n\r\nhi", cut), ""},
		"length, stays open":   {then(ok+"Content-Length: 2\r\n\r\nhi", stay), ""},
		"length, more behind":  {then(ok+"Content-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\n", stay), ""},
		"same length twice":    {answer(ok + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nhi"), ""},
		"chunked":              {answer(ok + "Transfer-Encoding: chunked\r\n\r\n1\r\nh\r\n1;x=y\r\ni\r\n0\r\n\r\n"), ""},
		"chunked with trailer": {answer(ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX: y\r\n\r\n"), ""},
		"HTTP/1.0 with length": {answer("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi"), ""},
		"no reason":            {answer("HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nhi"), ""},
		"interim answers":      {answer("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + ok + "Content-Length: 2\r\n\r\nhi"), ""},
		"bare line feeds":      {answer("HTTP/1.1 200 OK\nContent-Length: 2\n\nhi"), ""},
		"header of 64 KiB":     {answer(filled(64 << 10)), ""},
		"split into bytes":     {func(c *webtest.RawConn) { c.ReadRequest(); c.Drip(ok+"Content-Length: 2\r\n\r\nhi", 0) }, ""},

		"chunked, stays open": {then(ok+"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", stay), ""},

		// Cut.
		"nothing":                     {answer(""), "upstream_unavailable 0"},
		"nothing, reset":              {then("", reset), "upstream_unavailable 0"},
		"not even read":               {func(c *webtest.RawConn) { c.Cut() }, "upstream_unavailable 0"},
		"cut in the status":           {answer("HTTP/1.1 20"), "upstream_unavailable 0"},
		"cut in the header":           {answer(ok), "upstream_unavailable 0"},
		"reset in the header":         {then(ok, reset), "upstream_unavailable 0"},
		"cut after an interim answer": {answer("HTTP/1.1 100 Continue\r\n\r\n"), "upstream_unavailable 0"},
		"short":                       {answer(ok + "Content-Length: 3\r\n\r\nhi"), "upstream_incomplete 200"},
		"short, cut":                  {then(ok+"Content-Length: 3\r\n\r\nhi", cut), "upstream_incomplete 200"},
		"short, reset":                {then(ok+"Content-Length: 3\r\n\r\nhi", reset), "upstream_incomplete 200"},
		"chunk cut":                   {answer(ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nhi"), "upstream_incomplete 200"},
		"chunk cut hard":              {then(ok+"Transfer-Encoding: chunked\r\n\r\n3\r\nhi", cut), "upstream_incomplete 200"},
		"no last chunk":               {answer(ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n"), "upstream_incomplete 200"},
		"no last chunk, reset":        {then(ok+"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", reset), "upstream_incomplete 200"},
		"last chunk cut":              {answer(ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n"), "upstream_incomplete 200"},
		"trailer cut":                 {answer(ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX: y\r\n"), "upstream_incomplete 200"},
		"closing delimits":            {answer(ok + "\r\nhi"), "upstream_incomplete 200"},
		"closing delimits, said so":   {answer(ok + "Connection: close\r\n\r\nhi"), "upstream_incomplete 200"},
		"closing delimits, cut":       {then(ok+"\r\nhi", cut), "upstream_incomplete 200"},
		"closing delimits nothing":    {answer(ok + "\r\n"), "upstream_incomplete 200"},
		"HTTP/1.0 without length":     {answer("HTTP/1.0 200 OK\r\n\r\nhi"), "upstream_incomplete 200"},
		"gzip cut by closing":         {answer(ok + "Content-Encoding: gzip\r\n\r\n\x1f\x8b"), "upstream_incomplete 200"},

		// Malformed.
		"not HTTP":                 {then("SSH-2.0-OpenSSH_9.7\r\n\r\n", stay), "upstream_protocol_error 0"},
		"HTTP/0.9":                 {then("<html>secret</html>\n\n", stay), "upstream_protocol_error 0"},
		"HTTP/2 unasked":           {then("HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", stay), "upstream_protocol_error 0"},
		"HTTP/3":                   {then("HTTP/3.7 200 OK\r\nContent-Length: 2\r\n\r\nhi", stay), "upstream_protocol_error 0"},
		"status of two digits":     {then("HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\nhi", stay), "upstream_protocol_error 0"},
		"status 000":               {then("HTTP/1.1 000 OK\r\nContent-Length: 2\r\n\r\nhi", stay), "upstream_protocol_error 0"},
		"status of words":          {then("HTTP/1.1 two OK\r\n\r\n", stay), "upstream_protocol_error 0"},
		"no colon":                 {then("HTTP/1.1 200 OK\r\nsecret\r\n\r\n", stay), "upstream_protocol_error 0"},
		"NUL in a header":          {then(ok+"X: a\x00b\r\n\r\n", stay), "upstream_protocol_error 0"},
		"two lengths":              {then(ok+"Content-Length: 2\r\nContent-Length: 3\r\n\r\nhi!", stay), "upstream_protocol_error 0"},
		"length of words":          {then(ok+"Content-Length: two\r\n\r\nhi", stay), "upstream_protocol_error 0"},
		"negative length":          {then(ok+"Content-Length: -2\r\n\r\nhi", stay), "upstream_protocol_error 0"},
		"unknown transfer coding":  {then(ok+"Transfer-Encoding: gzip, chunked\r\n\r\n", stay), "upstream_protocol_error 0"},
		"malformed and closed":     {answer("HTTP/1.1 200 OK\r\nsecret\r\n\r\n"), "upstream_protocol_error 0"},
		"bad chunk":                {then(ok+"Transfer-Encoding: chunked\r\n\r\nzz\r\nhi\r\n", stay), "upstream_protocol_error 200"},
		"bad chunk and closed":     {answer(ok + "Transfer-Encoding: chunked\r\n\r\nzz\r\nhi\r\n0\r\n\r\n"), "upstream_protocol_error 200"},
		"chunk longer than said":   {then(ok+"Transfer-Encoding: chunked\r\n\r\n1\r\nhi\r\n0\r\n\r\n", stay), "upstream_protocol_error 200"},
		"endless trailer":          {then(ok+"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX: "+long, stay), "upstream_protocol_error 200"},
		"switching protocols":      {then("HTTP/1.1 101 Switching Protocols\r\nUpgrade: secret\r\nConnection: Upgrade\r\n\r\n", stay), "upstream_protocol_error 0"},
		"interim answers for ever": {answer(strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 1000)), "upstream_protocol_error 0"},
		"header of 64 KiB and one": {then(filled(64<<10+1), stay), "upstream_protocol_error 0"},
		"large header and closed":  {answer(filled(128 << 10)), "upstream_protocol_error 0"},
		"header without end":       {then(ok+"X: "+long+long, stay), "upstream_protocol_error 0"},
		"header in many lines":     {then(ok+strings.Repeat("X: y\r\n", 20_000), stay), "upstream_protocol_error 0"},
		"large interim header":     {then("HTTP/1.1 103 Early Hints\r\nX: "+long+"\r\n\r\n"+ok+"Content-Length: 2\r\nX: "+long+"\r\n\r\nhi", stay), "upstream_protocol_error 0"},

		// Statuses decide before bodies do.
		"redirect without an end":   {then("HTTP/1.1 302 Found\r\nLocation: /secret\r\n\r\nhi", stay), "redirect_refused 302"},
		"refusal without an end":    {then("HTTP/1.1 404 Not Found\r\nContent-Length: 99999999999\r\n\r\nhi", stay), "upstream_refused 404"},
		"304 with a body":           {then("HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\nhi", stay), "upstream_protocol_error 304"},
		"204 with a body":           {then("HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nhi", stay), "upstream_protocol_error 204"},
		"206":                       {then("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-1/9\r\nContent-Length: 2\r\n\r\nhi", stay), "upstream_protocol_error 206"},
		"too large by announcement": {then(ok+"Content-Length: 8388609\r\n\r\n", stay), "content_too_large 200"},
		"far too large":             {then(ok+"Content-Length: 9223372036854775807\r\n\r\n", stay), "content_too_large 200"},
		"length over all numbers":   {then(ok+"Content-Length: 9223372036854775808\r\n\r\n", stay), "upstream_protocol_error 0"},
		"chunk of all there is":     {then(ok+"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nhi", cut), "upstream_incomplete 200"},
		"unknown coding, no end":    {then(ok+"Content-Encoding: br\r\nContent-Length: 5\r\n\r\nhi", stay), "upstream_protocol_error 200"},
		"HTTP/1.1 after ALPN of h2": {nil, "upstream_protocol_error 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWeb(t, nil)
			protocols := []string{"http/1.1"}
			script := c.script
			if script == nil {
				protocols, script = []string{http2.NextProtoTLS}, then(ok+"Content-Length: 2\r\n\r\nhi", stay)
			}
			raw := webtest.NewRaw(t, w.ca, script, protocols...)
			got, err := w.fetch(t, raw.URL("/a"), "")
			if diff := cmp.Diff(c.want, outcome(t, err)); diff != "" {
				t.Error(diff)
			}
			if err == nil && string(got.Body) != "hi" {
				t.Errorf("%q", got.Body)
			}
			if n := raw.Connections(); n != 1 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

func TestRequestOnTheWire(t *testing.T) {
	t.Parallel()
	w := newWeb(t, func(o *fetch.Options) { o.UserAgent = "Own/1" })
	requests := make(chan string, 1)
	raw := webtest.NewRaw(t, w.ca, func(c *webtest.RawConn) {
		requests <- c.ReadRequest()
		c.Send(ok + "Content-Length: 0\r\n\r\n")
	})
	if _, err := w.fetch(t, raw.URL("/docs/a;b=(c)!"), `"v1"`); err != nil {
		t.Fatal(err)
	}
	host := strings.TrimSuffix(strings.TrimPrefix(raw.URL("/"), "https://"), "/")
	want := "GET /docs/a;b=(c)! HTTP/1.1\r\nHost: " + host + "\r\nUser-Agent: Own/1\r\nConnection: close\r\nAccept: */*\r\n" +
		"Accept-Encoding: identity\r\nIf-None-Match: \"v1\"\r\n\r\n"
	if diff := cmp.Diff(want, <-requests); diff != "" {
		t.Error(diff)
	}
}

// What HTTP/2 servers can do, frame by frame.
func TestFrames(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		play func(f *http2.Framer, c *webtest.RawConn)
		want string
	}{
		"whole": {func(f *http2.Framer, _ *webtest.RawConn) {
			headers(f, false, ":status", "200", "content-length", "2")
			_ = f.WriteData(1, true, []byte("hi"))
		}, ""},
		"whole, no length": {func(f *http2.Framer, _ *webtest.RawConn) {
			headers(f, false, ":status", "200")
			_ = f.WriteData(1, true, []byte("hi"))
		}, ""},
		"closed before an answer": {func(*http2.Framer, *webtest.RawConn) {}, "upstream_unavailable 0"},
		"reset before an answer":  {func(_ *http2.Framer, c *webtest.RawConn) { c.Reset() }, "upstream_unavailable 0"},
		"stream refused": {func(f *http2.Framer, c *webtest.RawConn) {
			_ = f.WriteRSTStream(1, http2.ErrCodeRefusedStream)
			c.Stall()
		}, "upstream_unavailable 0"},
		"going away": {func(f *http2.Framer, _ *webtest.RawConn) {
			_ = f.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, []byte("secret"))
		}, "upstream_unavailable 0"},
		"HTTP/1.1 demanded": {func(f *http2.Framer, c *webtest.RawConn) {
			_ = f.WriteRSTStream(1, http2.ErrCodeHTTP11Required)
			c.Stall()
		}, "upstream_protocol_error 0"},
		"cut in the body": {func(f *http2.Framer, c *webtest.RawConn) {
			headers(f, false, ":status", "200", "content-length", "3")
			_ = f.WriteData(1, false, []byte("hi"))
			c.Cut()
		}, "upstream_incomplete 200"},
		"cut without a length": {func(f *http2.Framer, c *webtest.RawConn) {
			headers(f, false, ":status", "200")
			_ = f.WriteData(1, false, []byte("hi"))
			c.Reset()
		}, "upstream_incomplete 200"},
		"stream reset in the body": {func(f *http2.Framer, c *webtest.RawConn) {
			headers(f, false, ":status", "200")
			_ = f.WriteData(1, false, []byte("hi"))
			_ = f.WriteRSTStream(1, http2.ErrCodeNo)
			c.Stall()
		}, "upstream_incomplete 200"},
		"shorter than announced": {func(f *http2.Framer, c *webtest.RawConn) {
			headers(f, false, ":status", "200", "content-length", "3")
			_ = f.WriteData(1, true, []byte("hi"))
			c.Stall()
		}, "upstream_incomplete 200"},
		"announced and absent": {func(f *http2.Framer, c *webtest.RawConn) {
			headers(f, true, ":status", "200", "content-length", "3")
			c.Stall()
		}, "upstream_incomplete 200"},
		"longer than announced": {func(f *http2.Framer, c *webtest.RawConn) {
			headers(f, false, ":status", "200", "content-length", "1")
			_ = f.WriteData(1, true, []byte("hi"))
			c.Stall()
		}, "upstream_protocol_error 200"},
		"no status": {func(f *http2.Framer, c *webtest.RawConn) {
			headers(f, true, "content-length", "0")
			c.Stall()
		}, "upstream_protocol_error 0"},
		"no status and closed": {func(f *http2.Framer, _ *webtest.RawConn) { headers(f, true, "content-length", "0") }, "upstream_protocol_error 0"},
		"status of words": {func(f *http2.Framer, c *webtest.RawConn) {
			headers(f, true, ":status", "two")
			c.Stall()
		}, "upstream_protocol_error 0"},
		"switching protocols": {func(f *http2.Framer, c *webtest.RawConn) {
			headers(f, false, ":status", "101")
			headers(f, true, ":status", "200")
			c.Stall()
		}, "upstream_protocol_error 0"},
		"frame of a wrong size": {func(f *http2.Framer, c *webtest.RawConn) {
			_ = f.WriteRawFrame(http2.FramePing, 0, 0, []byte("secret"))
			c.Stall()
		}, "upstream_protocol_error 0"},
		"bad compression": {func(f *http2.Framer, c *webtest.RawConn) {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, EndHeaders: true})
			c.Stall()
		}, "upstream_protocol_error 0"},
		"redirect": {func(f *http2.Framer, c *webtest.RawConn) {
			headers(f, false, ":status", "307", "location", "https://secret.example/")
			c.Stall()
		}, "redirect_refused 307"},
		"frame too large in the body": {func(f *http2.Framer, c *webtest.RawConn) {
			headers(f, false, ":status", "200")
			_ = f.WriteRawFrame(http2.FrameData, 0, 1, make([]byte, 2<<20))
			c.Stall()
		}, "upstream_protocol_error 200"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWeb(t, nil)
			raw := webtest.NewRaw(t, w.ca, func(conn *webtest.RawConn) {
				f := handshake(conn)
				c.play(f, conn)
			}, http2.NextProtoTLS)
			got, err := w.fetch(t, raw.URL("/a"), "")
			if diff := cmp.Diff(c.want, outcome(t, err)); diff != "" {
				t.Error(diff)
			}
			if err == nil && string(got.Body) != "hi" {
				t.Errorf("%q", got.Body)
			}
		})
	}
}

// handshake begins HTTP/2 as a server and reads up to the request.
func handshake(c *webtest.RawConn) *http2.Framer {
	_, _ = io.ReadFull(c, make([]byte, len(http2.ClientPreface)))
	f := http2.NewFramer(c, c)
	_ = f.WriteSettings()
	for {
		frame, err := f.ReadFrame()
		if _, ok := frame.(*http2.HeadersFrame); ok || err != nil {
			return f
		}
	}
}

func headers(f *http2.Framer, last bool, pairs ...string) {
	var block strings.Builder
	encoder := hpack.NewEncoder(&block)
	for i := 0; i < len(pairs); i += 2 {
		_ = encoder.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte(block.String()), EndHeaders: true, EndStream: last})
}

// Whatever waits for the origin has an end. The times are short; none is waited for in full.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	const short = 50 * time.Millisecond
	stalled := func(protocol string) func(t *testing.T, w *web) string {
		return func(t *testing.T, w *web) string {
			return webtest.NewRaw(t, w.ca, func(c *webtest.RawConn) { c.Stall() }, protocol).URL("/a")
		}
	}
	for name, c := range map[string]struct {
		limit  func(*fetch.Options)
		target func(t *testing.T, w *web) string
		want   string
	}{
		"TLS": {func(o *fetch.Options) { o.TLSTimeout = short }, func(t *testing.T, _ *web) string {
			return webtest.NewPlain(t, func(c *webtest.RawConn) { c.Stall() }).URL("/a")
		}, "upstream_timeout 0"},
		"TLS, dripping": {func(o *fetch.Options) { o.TLSTimeout = short }, func(t *testing.T, _ *web) string {
			return webtest.NewPlain(t, func(c *webtest.RawConn) {
				c.Drip("\x16\x03\x03\x40\x00"+strings.Repeat("\x00", 1<<14), 5*time.Millisecond)
			}).URL("/a")
		}, "upstream_timeout 0"},
		"header":         {func(o *fetch.Options) { o.HeaderTimeout = short }, stalled("http/1.1"), "upstream_timeout 0"},
		"header, HTTP/2": {func(o *fetch.Options) { o.HeaderTimeout = short }, stalled(http2.NextProtoTLS), "upstream_timeout 0"},
		"header, dripping": {func(o *fetch.Options) { o.HeaderTimeout = short }, func(t *testing.T, w *web) string {
			return webtest.NewRaw(t, w.ca, func(c *webtest.RawConn) {
				c.ReadRequest()
				c.Drip(ok+strings.Repeat("X: y\r\n", 10_000), 5*time.Millisecond)
			}).URL("/a")
		}, "upstream_timeout 0"},
		"whole, in the TLS handshake": {func(o *fetch.Options) { o.Timeout = short }, func(t *testing.T, _ *web) string {
			return webtest.NewPlain(t, func(c *webtest.RawConn) { c.Stall() }).URL("/a")
		}, "upstream_timeout 0"},
		"whole, in the header": {func(o *fetch.Options) { o.Timeout = 20 * short }, stalled("http/1.1"), "upstream_timeout 0"},
		"whole, dripping": {func(o *fetch.Options) { o.Timeout = 20 * short }, func(t *testing.T, w *web) string {
			return webtest.NewRaw(t, w.ca, func(c *webtest.RawConn) {
				c.ReadRequest()
				c.Send(ok + "Content-Length: 100000\r\n\r\n")
				c.Drip(strings.Repeat("a", 100_000), 5*time.Millisecond)
			}).URL("/a")
		}, "upstream_timeout 200"},
		"whole, stalled body, HTTP/2": {func(o *fetch.Options) { o.Timeout = 20 * short }, func(t *testing.T, w *web) string {
			return webtest.NewRaw(t, w.ca, func(c *webtest.RawConn) {
				headers(handshake(c), false, ":status", "200")
				c.Stall()
			}, http2.NextProtoTLS).URL("/a")
		}, "upstream_timeout 200"},
		"name server": {func(o *fetch.Options) { o.ConnectTimeout = short }, func(_ *testing.T, w *web) string {
			w.dns.Set("silent.example.com", webtest.Answer{Drop: true})
			return "https://silent.example.com/a"
		}, "upstream_unavailable 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWeb(t, nil)
			w.client = w.newClient(t, c.limit)
			_, err := w.fetch(t, c.target(t, w), "")
			if got := outcome(t, err); got != c.want && (c.want != "upstream_timeout 200" || got != "upstream_timeout 0") { // as slow as the machine
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
