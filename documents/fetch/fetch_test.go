package fetch_test

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/documents/fetch"
	"github.com/fetcherhq/fetcher/documents/weburl"
	"github.com/fetcherhq/fetcher/testkit/webtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const limit = fetch.DefaultMaxBody

// web is a client together with what it may reach: 127.0.0.1, under the name of webtest.Host.
type web struct {
	ca     *webtest.CA
	dns    *webtest.DNS
	client *fetch.Client
}

func newWeb(t testing.TB, change func(*fetch.Options)) *web {
	t.Helper()
	w := &web{ca: webtest.NewCA(t), dns: webtest.NewDNS(t)}
	w.dns.Set(webtest.Host, webtest.Addrs("127.0.0.1"))
	w.client = w.newClient(t, change)
	return w
}

func (w *web) newClient(t testing.TB, change func(*fetch.Options)) *fetch.Client {
	t.Helper()
	o := fetch.Options{
		Policy: dial.Policy{Allow: []string{"127.0.0.1/32"}}, Resolver: w.dns.Resolver(), RootCAs: w.ca.Pool(),
		// None may run out where it isn't what a test is about.
		ConnectTimeout: 10 * time.Minute, TLSTimeout: 10 * time.Minute, HeaderTimeout: 10 * time.Minute, Timeout: 10 * time.Minute,
	}
	if change != nil {
		change(&o)
	}
	c, err := fetch.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (w *web) fetch(t testing.TB, target, etag string) (*fetch.Response, error) {
	t.Helper()
	u, err := weburl.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	return w.client.Fetch(t.Context(), u, etag)
}

// outcome is an error's code and status, such as "redirect_refused 302", or "" without one. The reason must be safe.
func outcome(t testing.TB, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	e, ok := errors.AsType[*fetch.Error](err)
	if !ok {
		t.Fatalf("not an error of fetch: %v", err)
	}
	for _, leak := range []string{"127.0.0", "example", "secret", "http://", "https://", "::"} {
		if strings.Contains(err.Error(), leak) {
			t.Errorf("the error tells %q: %v", leak, err)
		}
	}
	return string(e.Code) + " " + strconv.Itoa(e.UpstreamStatus)
}

// protocols runs a test over HTTP/1.1 and over HTTP/2.
func protocols(t *testing.T, test func(t *testing.T, w *web, o *webtest.Origin, proto string)) {
	t.Helper()
	for proto, opts := range map[string][]webtest.OriginOption{"HTTP/1.1": {webtest.HTTP1Only}, "HTTP/2.0": nil} {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			w := newWeb(t, nil)
			test(t, w, webtest.NewOrigin(t, w.ca, opts...), proto)
		})
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, w *web, o *webtest.Origin, proto string) {
		const path = "/docs/a'(b);c=d!$&*+,:@-._~/"
		o.Handle(path, func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "Text/HTML; charset=utf-8")
			rw.Header().Set("ETag", `"v1"`)
			rw.Header().Set("Set-Cookie", "a=b")
			_, _ = rw.Write([]byte("<p>hello"))
		})
		for range 2 {
			got, err := w.fetch(t, o.URL(path), "")
			if err != nil {
				t.Fatal(err)
			}
			want := &fetch.Response{DeclaredType: "Text/HTML; charset=utf-8", Body: []byte("<p>hello"), ETag: `"v1"`, Size: 8}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		}
		header := http.Header{"User-Agent": {fetch.DefaultUserAgent}, "Accept": {"*/*"}, "Accept-Encoding": {"identity"}}
		if proto == "HTTP/1.1" {
			header.Set("Connection", "close")
		}
		seen := webtest.Seen{Method: "GET", Host: strings.TrimPrefix(o.Base(), "https://"), Target: path, Proto: proto, Header: header}
		if diff := cmp.Diff([]webtest.Seen{seen, seen}, o.Seen()); diff != "" {
			t.Error(diff)
		}
		if n := o.Connections(); n != 2 {
			t.Errorf("%d connections for two fetches", n)
		}
		if a, aaaa := w.dns.Asked(webtest.Host); a != 2 || aaaa != 2 {
			t.Errorf("asked for %d A and %d AAAA", a, aaaa)
		}
	})
}

func TestDeclaredTypesAndTags(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, w *web, o *webtest.Origin, _ string) {
		for i, c := range []struct {
			header http.Header
			want   fetch.Response
			err    string
		}{
			{http.Header{"Content-Type": nil}, fetch.Response{}, ""},
			{http.Header{"Content-Type": {""}}, fetch.Response{}, ""},
			{http.Header{"Content-Type": {"text/plain"}, "Etag": {`W/"weak"`}}, fetch.Response{DeclaredType: "text/plain"}, ""},
			{http.Header{"Content-Type": {"text/plain"}, "Etag": {"bare"}}, fetch.Response{DeclaredType: "text/plain"}, ""},
			{http.Header{"Content-Type": {"text/plain"}, "Etag": {`"a"b"`}}, fetch.Response{DeclaredType: "text/plain"}, ""},
			{http.Header{"Content-Type": {"text/plain"}, "Etag": {`"a"`, `"b"`}}, fetch.Response{DeclaredType: "text/plain"}, ""},
			{http.Header{"Content-Type": {"text/plain"}, "Etag": {`""`}}, fetch.Response{DeclaredType: "text/plain", ETag: `""`}, ""},
			{http.Header{"Content-Type": {"a/" + strings.Repeat("b", 253)}}, fetch.Response{DeclaredType: "a/" + strings.Repeat("b", 253)}, ""},
			{http.Header{"Content-Type": {"a/" + strings.Repeat("b", 254)}}, fetch.Response{}, "unsupported_media_type 200"},
			{http.Header{"Content-Type": {"text/é"}}, fetch.Response{}, "unsupported_media_type 200"},
			{http.Header{"Content-Type": {"text/plain", "text/html"}}, fetch.Response{}, "upstream_protocol_error 200"},
		} {
			path := "/" + strconv.Itoa(i)
			o.Status(path, http.StatusOK, c.header)
			got, err := w.fetch(t, o.URL(path), "")
			if diff := cmp.Diff(c.err, outcome(t, err)); diff != "" {
				t.Errorf("%d: %s", i, diff)
			}
			if c.want.Body = []byte{}; err == nil && !cmp.Equal(&c.want, got) {
				t.Errorf("%d: %s", i, cmp.Diff(&c.want, got))
			}
		}
	})
}

// Every status there is, and some there aren't.
func TestStatuses(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, w *web, o *webtest.Origin, _ string) {
		want := map[int]string{
			200: "", 429: "upstream_unavailable 429", 304: "upstream_protocol_error 304", 600: "upstream_protocol_error 600", 999: "upstream_protocol_error 999",
		}
		for _, status := range []int{201, 202, 203, 204, 205, 206, 207, 208, 226, 299} {
			want[status] = "upstream_protocol_error " + strconv.Itoa(status)
		}
		for _, status := range []int{300, 301, 302, 303, 305, 306, 307, 308, 310, 399} {
			want[status] = "redirect_refused " + strconv.Itoa(status)
		}
		for _, status := range []int{400, 401, 403, 404, 405, 407, 408, 410, 418, 421, 451, 499} {
			want[status] = "upstream_refused " + strconv.Itoa(status)
		}
		for _, status := range []int{500, 501, 502, 503, 504, 511, 599} {
			want[status] = "upstream_unavailable " + strconv.Itoa(status)
		}
		header := http.Header{"Location": {"https://secret.example/elsewhere"}, "Refresh": {"0; url=/elsewhere"}, "Etag": {`"v"`}}
		for status, code := range want {
			path := "/" + strconv.Itoa(status)
			o.Status(path, status, header)
			_, err := w.fetch(t, o.URL(path), "")
			if diff := cmp.Diff(code, outcome(t, err)); diff != "" {
				t.Errorf("%d: %s", status, diff)
			}
		}
		if n := len(o.Seen()); n != len(want) {
			t.Errorf("%d requests for %d fetches", n, len(want))
		}
	})
}

// Redirects to anywhere are refused alike: within the origin, to another one, to the name itself, without a target.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, w *web, o *webtest.Origin, _ string) {
		canary := webtest.NewCanary(t, "127.0.0.1", 0)
		elsewhere := "127.0.0.1:" + strconv.Itoa(canary.Port())
		for i, location := range []string{
			"/docs/b", "b", "", "//" + elsewhere + "/", "https://" + elsewhere + "/", "http://" + elsewhere + "/", "javascript:alert(1)",
			"\t//" + elsewhere, "https://docs.example.com@" + elsewhere + "/", "%", "file:///etc/passwd",
		} {
			path := "/" + strconv.Itoa(i)
			o.Status(path, http.StatusMovedPermanently+i%2, http.Header{"Location": {location}})
			_, err := w.fetch(t, o.URL(path), "")
			if diff := cmp.Diff("redirect_refused "+strconv.Itoa(http.StatusMovedPermanently+i%2), outcome(t, err)); diff != "" {
				t.Errorf("%s: %s", location, diff)
			}
		}
		if n := len(o.Seen()); n != 11 {
			t.Errorf("%d requests for 11 fetches", n)
		}
	})
}

func TestConditional(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, w *web, o *webtest.Origin, _ string) {
		o.Handle("/a", func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("ETag", `"v1"`)
			if r.Header.Get("If-None-Match") == `"v1"` {
				rw.WriteHeader(http.StatusNotModified)
			}
		})
		got, err := w.fetch(t, o.URL("/a"), `"v1"`)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&fetch.Response{NotModified: true, ETag: `"v1"`}, got); diff != "" {
			t.Error(diff)
		}
		for _, tag := range []string{`W/"v1"`, "v1", `"v1`, `*`, `"v1", "v2"`, "\"v\r\nX: y\""} { // not strong: not sent
			if got, err = w.fetch(t, o.URL("/a"), tag); err != nil || got.NotModified {
				t.Errorf("%q: %+v %v", tag, got, err)
			}
			if seen := o.Seen(); seen[len(seen)-1].Header.Values("If-None-Match") != nil {
				t.Errorf("%q was sent", tag)
			}
		}
		o.Status("/always", http.StatusNotModified, nil)
		_, err = w.fetch(t, o.URL("/always"), "")
		if diff := cmp.Diff("upstream_protocol_error 304", outcome(t, err)); diff != "" {
			t.Error(diff)
		}
	})
}
