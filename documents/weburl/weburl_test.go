package weburl_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/documents/weburl"
)

const (
	inside  = "inside"
	outside = "outside"
)

func approval(t testing.TB, origin, prefix string) weburl.Approval {
	t.Helper()
	o, err := weburl.ParseOrigin(origin, []int{443, 8443})
	if err != nil {
		t.Fatal(err)
	}
	p, err := weburl.ParsePrefix(prefix)
	if err != nil {
		t.Fatal(err)
	}
	return weburl.Approval{Origin: o, Prefix: p}
}

// Every URL is inside, outside, or refused by the rule named.
func TestURLs(t *testing.T) {
	t.Parallel()
	a := approval(t, "https://docs.example.com", "/docs")
	const (
		start  = "must start with https://"
		query  = "must not have a query or fragment"
		user   = "must not contain userinfo"
		ip     = "must name a host, not an IP address"
		number = "must not have a host whose last label is a number"
		labels = "must have a host of two labels or more"
		dot    = "must not end its host with a dot"
		host   = "must have a valid host name"
		port   = "must have a port from 1 to 65535 or none"
		empty  = "must not have empty path segments"
		dots   = "must not have . or .. as path segments"
		chars  = "must not have characters in its path that RFC 3986 doesn't allow there"
		ascii  = "must consist of visible ASCII characters"
		enc    = "must not contain percent-encoding"
		back   = "must not contain a backslash"
		length = "must have 12 to 2048 characters"
	)
	for given, want := range map[string]string{
		"https://docs.example.com/docs":                        inside,
		"https://docs.example.com/docs/":                       inside,
		"https://docs.example.com/docs/a":                      inside,
		"https://docs.example.com/docs/a/b/":                   inside,
		"https://docs.example.com:443/docs/a":                  inside,
		"https://DOCS.Example.COM/docs/a":                      inside,
		"https://docs.example.com/docs/a;v=1":                  inside,
		"https://docs.example.com/docs/...":                    inside,
		"https://docs.example.com/docs/..a":                    inside,
		"https://docs.example.com/docs/.well-known":            inside,
		"https://docs.example.com/docs/a.;b":                   inside,
		"https://docs.example.com/docs/a:b@c!$&'()*+,;=-._~":   inside,
		"https://docs.example.com/docs/https:":                 inside,
		"https://docs.example.com/docs/;":                      inside,
		"https://docs.example.com/docs" + "/" + rep("a", 2018): inside, // 2048 characters

		"https://docs.example.com":                      outside,
		"https://docs.example.com/":                     outside,
		"https://docs.example.com/doc":                  outside,
		"https://docs.example.com/docs-internal":        outside,
		"https://docs.example.com/docsx/docs":           outside,
		"https://docs.example.com/docs;a":               outside,
		"https://docs.example.com/Docs":                 outside,
		"https://docs.example.com/DOCS/a":               outside,
		"https://docs.example.com/a/docs":               outside,
		"https://docs.example.com:8443/docs":            outside,
		"https://docs.example.com:65535/docs":           outside,
		"https://example.com/docs":                      outside,
		"https://docs.example.com.evil.example/docs":    outside,
		"https://evil-docs.example.com/docs":            outside,
		"https://docs.example.co/docs":                  outside,
		"https://docs_example.com/docs":                 outside,
		"https://xn--dcs-sna.example.com/docs":          outside,
		"https://a.bc/":                                 outside,
		"https://localhost.example/docs":                outside,
		"https://1.2.3.4.example.com/docs":              outside,
		"https://metadata.google.internal/computeMeta":  outside,
		"https://docs.example.com.localhost/docs":       outside,
		"https://docs-example.com/docs.example.com/doc": outside,

		"":            length,
		"https://a.b": length,
		"https://docs.example.com/" + rep("a", 2024): length,

		"http://docs.example.com/docs":                start,
		"HTTPS://docs.example.com/docs":               start,
		"Https://docs.example.com/docs":               start,
		" https://docs.example.com/docs":              start,
		"https:/docs.example.com/docs":                start,
		"https:\\\\docs.example.com/docs":             start,
		"//docs.example.com/docs":                     start,
		"ftp://docs.example.com/docs":                 start,
		"javascript:https://docs.example.com":         start,
		"\ufeffhttps://docs.example.com/docs":         start,
		"https://docs.example.com/docs?a=b":           query,
		"https://docs.example.com/docs?":              query,
		"https://docs.example.com/docs#x":             query,
		"https://docs.example.com#@evil.example":      query,
		"https://docs.example.com/docs\\..\\a":        back,
		"https://docs.example.com\\@evil.example":     back,
		"https://docs.example.com/docs/%2e%2e/":       enc,
		"https://docs.example.com/docs%2fa":           enc,
		"https://docs%2eexample.com/docs":             enc,
		"https://docs.example.com/docs a":             ascii,
		"https://docs.example.com/docs/ ":             ascii,
		"https://docs.example.com/docs\n":             ascii,
		"https://docs.example.com/docs\r\nHost: evil": ascii,
		"https://docs.example.com/docs\t":             ascii,
		"https://docs.example.com/docs\x00":           ascii,
		"https://docs.example.com/docs\x7f":           ascii,
		"https://docs.example.com/docs/é":             ascii,
		"https://docs.example.com/docs\u00a0":         ascii,
		"https://docs.example.com/docs\u2028":         ascii,
		"https://dócs.example.com/docs":               ascii,
		"https://docs。example.com/docs":               ascii,
		"https://１２７.0.0.1/docs":                      ascii,
		"https://docs.example.com/\xff\xfe":           ascii,

		"https://user@docs.example.com/docs":              user,
		"https://user:pw@docs.example.com/docs":           user,
		"https://docs.example.com@evil.example/docs":      user,
		"https://docs.example.com:443@evil.example/docs":  user,
		"https://@docs.example.com/docs":                  user,
		"https:///docs/a":                                 "must name a host",
		"https://:443/docs":                               "must name a host",
		"https://127.0.0.1/docs":                          ip,
		"https://8.8.8.8/docs":                            ip,
		"https://[::1]/docs":                              ip,
		"https://[::ffff:127.0.0.1]/docs":                 ip,
		"https://[docs.example.com]/docs":                 ip,
		"https://2130706433/docs":                         number,
		"https://0x7f000001/docs":                         number,
		"https://0x7f.0.0.0x1/docs":                       number,
		"https://0177.0.0.01/docs":                        number,
		"https://127.1/docs/a":                            number,
		"https://example.0X1F/docs":                       number,
		"https://example.0xyz/docs":                       number,
		"https://docs.example.123/docs":                   number,
		"https://localhost/docs":                          labels,
		"https://intranet:8443/docs":                      labels,
		"https://docs.example.com./docs":                  dot,
		"https://127.0.0.1./docs":                         dot,
		"https://./docs/a":                                dot,
		"https://docs..example.com/docs":                  host,
		"https://.example.com/docs":                       host,
		"https://-docs.example.com/docs":                  host,
		"https://docs-.example.com/docs":                  host,
		"https://docs,example.com/docs":                   host, // the comma is no dot
		"https://docs.exa$mple.com/docs":                  host,
		"https://docs.example.com;a/docs":                 host,
		"https://" + rep("a", 64) + ".example.com/docs":   host,
		"https://" + strings.Repeat("abc.", 64) + "com/a": host,
		"https://docs.example.com:/docs":                  port,
		"https://docs.example.com:0/docs":                 port,
		"https://docs.example.com:0443/docs":              port,
		"https://docs.example.com:65536/docs":             port,
		"https://docs.example.com:443443/docs":            port,
		"https://docs.example.com:+443/docs":              port,
		"https://docs.example.com:-1/docs":                port,
		"https://docs.example.com:443:443/docs":           port,
		"https://docs.example.com:https/docs":             port,
		"https://docs.example.com//docs":                  empty,
		"https://docs.example.com/docs//a":                empty,
		"https://docs.example.com/docs//":                 empty,
		"https://docs.example.com//":                      empty,
		"https://docs.example.com/docs/../admin":          dots,
		"https://docs.example.com/docs/..":                dots,
		"https://docs.example.com/docs/.":                 dots,
		"https://docs.example.com/docs/./a":               dots,
		"https://docs.example.com/docs/..;/admin":         dots,
		"https://docs.example.com/docs/.;x=1/admin":       dots,
		"https://docs.example.com/docs/..;":               dots,
		"https://docs.example.com/docs/..;a;b/":           dots,
		"https://docs.example.com/docs/a|b":               chars,
		"https://docs.example.com/docs/<a>":               chars,
		"https://docs.example.com/docs/[a]":               chars,
		"https://docs.example.com/docs/{a}":               chars,
		"https://docs.example.com/docs/\"a":               chars,
		"https://docs.example.com/docs/^`":                chars,
	} {
		u, err := weburl.Parse(given)
		got := outside
		switch {
		case err != nil:
			rule, ok := errors.AsType[*weburl.Error](err)
			if !ok || rule.Error() != "the URL "+rule.Rule {
				t.Fatalf("%q: %v", given, err)
			}
			got = rule.Rule
		case a.Admits(u):
			got = inside
		}
		if got != want {
			t.Errorf("%q: %s, want %s", given, got, want)
		}
	}
}

func rep(s string, n int) string { return strings.Repeat(s, n) }

func TestCanonicalForm(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"https://docs.example.com":              "https://docs.example.com/",
		"https://docs.example.com:443":          "https://docs.example.com/",
		"https://DOCS.example.com:443/A/b/":     "https://docs.example.com/A/b/",
		"https://docs.example.com:8443/a'(b)!*": "https://docs.example.com:8443/a'(b)!*",
	} {
		u, err := weburl.Parse(given)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, u.String()); diff != "" {
			t.Error(diff)
		}
		again, err := weburl.Parse(u.String())
		if err != nil || again != u {
			t.Errorf("%s reads as %v: %v", u, again, err)
		}
	}
}

func TestOrigins(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"https://docs.example.com":       "https://docs.example.com",
		"https://Docs.Example.com:443":   "https://docs.example.com",
		"https://docs.example.com:8443":  "https://docs.example.com:8443",
		"https://a.b":                    "https://a.b",
		"https://docs.example.com/":      "the origin must not have a path",
		"https://docs.example.com/docs":  "the origin must not have a path",
		"http://docs.example.com":        "the origin must start with https://",
		"docs.example.com":               "the origin must start with https://",
		"":                               "the origin must start with https://",
		"https://":                       "the origin must name a host",
		"https://docs.example.com:22":    "the origin must have one of the ports this service may use",
		"https://docs.example.com:99999": "the origin must have a port from 1 to 65535 or none",
		"https://*.example.com":          "the origin must have a valid host name",
		"https://10.0.0.1":               "the origin must name a host, not an IP address",
		"https://a@docs.example.com":     "the origin must not contain userinfo",
		"https://docs.example.com?":      "the origin must not have a query or fragment",
		"https://" + rep("a.", 1100):     "the origin must have at most 2048 characters",
	} {
		o, err := weburl.ParseOrigin(given, []int{443, 8443})
		got := o.String()
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %s, want %s", given, got, want)
		}
	}
	if _, err := weburl.ParseOrigin("https://docs.example.com", []int{8443}); err == nil {
		t.Error("the default port was allowed without being listed")
	}
}

func TestPrefixes(t *testing.T) {
	t.Parallel()
	for given, ok := range map[string]bool{
		"/": true, "/docs": true, "/docs/": true, "/a/b/c;d=e/": true, "/" + rep("a", 1023): true, "/...": true,
		"": false, "docs": false, "//": false, "/a//b": false, "/..": false, "/a/../b": false, "/.": false, "/..;a": false,
		"/a?b": false, "/a#": false, "/%61": false, "/a\\b": false, "/a b": false, "/é": false, "/a\n": false, "/a|": false,
		"/" + rep("a", 1024): false, "https://docs.example.com/": false, "/*": true,
	} {
		p, err := weburl.ParsePrefix(given)
		if (err == nil) != ok || ok && p.String() != given || !ok && !strings.HasPrefix(err.Error(), "the path prefix must ") {
			t.Errorf("%q: %v", given, err)
		}
	}
}

func TestAdmits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		prefix, path string
		want         bool
	}{
		{"/", "/", true}, {"/", "/a", true}, {"/", "/a/b", true},
		{"/docs", "/docs", true}, {"/docs", "/docs/", true}, {"/docs", "/docs/a", true}, {"/docs", "/docs-internal", false},
		{"/docs", "/doc", false}, {"/docs", "/", false}, {"/docs", "/docs;a", false}, {"/docs", "/docs.html", false},
		{"/docs/", "/docs/", true}, {"/docs/", "/docs/a", true}, {"/docs/", "/docs", false}, {"/docs/", "/docsa", false},
		{"/*", "/a", false}, {"/*", "/*", true},
	} {
		a := approval(t, "https://docs.example.com", c.prefix)
		u, err := weburl.Parse("https://docs.example.com" + c.path)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Admits(u); got != c.want {
			t.Errorf("%s admits %s: %v", c.prefix, c.path, got)
		}
	}
	if (weburl.Approval{}).Admits(weburl.URL{}) {
		t.Error("nothing admits nothing")
	}
}

func TestNarrower(t *testing.T) {
	t.Parallel()
	const origin = "https://docs.example.com"
	for _, c := range []struct {
		origin, prefix, of string
		want               bool
	}{
		{origin, "/docs", "/docs", true}, {origin, "/docs/", "/docs", true}, {origin, "/docs/a", "/docs", true},
		{origin, "/docs/a", "/docs/", true}, {origin, "/docs", "/", true}, {origin, "/docs", "/docs/", false},
		{origin, "/", "/docs", false}, {origin, "/docs-internal", "/docs", false}, {origin, "/doc", "/docs", false},
		{"https://docs.example.com:8443", "/docs/a", "/docs", false}, {"https://a.docs.example.com", "/docs", "/docs", false},
	} {
		if got := approval(t, c.origin, c.prefix).Narrower(approval(t, origin, c.of)); got != c.want {
			t.Errorf("%s%s narrower than %s: %v", c.origin, c.prefix, c.of, got)
		}
	}
}

// sent returns what net/http puts on the wire for a URL: where it connects to, and the bytes of the request.
func sent(t *testing.T, target string) (address, line, host string) {
	t.Helper()
	server, client := net.Pipe()
	transport := &http.Transport{DisableKeepAlives: true, DialTLSContext: func(_ context.Context, _, addr string) (net.Conn, error) {
		address = addr
		return client, nil
	}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	if err != nil {
		t.Fatalf("%q can't be sent: %v", target, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = server.Close() }()
		from := bufio.NewReader(server)
		line, _ = from.ReadString('\n')
		host, _ = from.ReadString('\n')
		for l := host; l != "\r\n" && l != ""; {
			l, _ = from.ReadString('\n')
		}
		_, _ = io.WriteString(server, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
	}()
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatalf("%q: %v", target, err)
	}
	_ = res.Body.Close()
	<-done
	return address, line, host
}

// checkSent proves for an admitted URL that what goes out goes to the approved origin, below the prefix.
func checkSent(t *testing.T, a weburl.Approval, u weburl.URL) {
	t.Helper()
	parsed, err := url.Parse(u.String())
	if err != nil {
		t.Fatalf("%q: %v", u, err)
	}
	want := &url.URL{Scheme: "https", Host: strings.TrimPrefix(a.Origin.String(), "https://"), Path: parsed.Path, RawPath: parsed.RawPath}
	if diff := cmp.Diff(want, parsed); diff != "" {
		t.Fatalf("%q (-want +got):\n%s", u, diff)
	}
	if parsed.Path != u.Path() || parsed.RequestURI() != u.Path() || parsed.String() != u.String() {
		t.Fatalf("%q is read as %q", u, parsed)
	}
	if below := parsed.JoinPath(); u.Path() != "/" && below.Path != u.Path() {
		t.Fatalf("%q is cleaned to %q", u.Path(), below.Path)
	}
	address, line, host := sent(t, u.String())
	if want := net.JoinHostPort(a.Origin.Host(), port(a.Origin)); address != want {
		t.Fatalf("%q connects to %q, want %q", u, address, want)
	}
	if want := "GET " + u.Path() + " HTTP/1.1\r\n"; line != want {
		t.Fatalf("%q is sent as %q", u, line)
	}
	if want := "Host: " + strings.TrimPrefix(a.Origin.String(), "https://") + "\r\n"; host != want {
		t.Fatalf("%q is sent to %q", u, host)
	}
	prefix := a.Prefix.String()
	rest, ok := strings.CutPrefix(u.Path(), prefix)
	if !ok || rest != "" && !strings.HasSuffix(prefix, "/") && rest[0] != '/' {
		t.Fatalf("%q lies outside %q", u.Path(), prefix)
	}
}

func port(o weburl.Origin) string {
	if u, _ := url.Parse(o.String()); u.Port() != "" {
		return u.Port()
	}
	return "443"
}

// Whatever is accepted is sent, byte for byte, to its own origin.
func FuzzURL(f *testing.F) {
	for _, seed := range []string{
		"https://docs.example.com/docs/a", "https://Docs.Example.com:443", "https://docs.example.com:8443/a;b/../c",
		"https://u@docs.example.com/", "https://docs.example.com/!$&'()*+,;=:@-._~/", "https://a.b/%2e%2e/x?y#z",
		"https://[::1]:1/a", "https://docs.example.com\\@evil.example/", "https://0x7f.1/abc", "https://docs.example.com//a",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, given string) {
		u, err := weburl.Parse(given)
		if err != nil {
			if u != (weburl.URL{}) {
				t.Fatalf("%q: refused with %v", given, u)
			}
			return
		}
		if again, failed := weburl.Parse(u.String()); failed != nil || again != u {
			t.Fatalf("%q: %q is read as %q: %v", given, u, again, failed)
		}
		parsed, err := url.Parse(given) // what anybody else reads in what was given
		if err != nil || !strings.EqualFold(parsed.Hostname(), u.Origin().Host()) || parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "" {
			t.Fatalf("%q is read as %#v: %v", given, parsed, err)
		}
		root, err := weburl.ParsePrefix("/")
		if err != nil {
			t.Fatal(err)
		}
		a := weburl.Approval{Origin: u.Origin(), Prefix: root}
		if !a.Admits(u) {
			t.Fatalf("%q is not below its own origin", u)
		}
		checkSent(t, a, u)
	})
}

// Whatever an approval admits is sent to exactly its origin, below exactly its prefix; what a narrower one admits, the
// wider one does too.
func FuzzPrefix(f *testing.F) {
	f.Add("/docs", "/docs/a", "/docs/a/b")
	f.Add("/docs/", "/docs", "/docs/")
	f.Add("/", "/a;b", "/..;/")
	f.Add("/a", "/a", "/a-b")
	f.Fuzz(func(t *testing.T, wide, narrow, path string) {
		const origin = "https://docs.example.com"
		u, err := weburl.Parse(origin + path)
		if err != nil || path != "" && path[0] != '/' {
			return
		}
		o := u.Origin()
		if o.String() != origin {
			t.Fatalf("%q changed the origin to %s", path, o)
		}
		outer, err := weburl.ParsePrefix(wide)
		if err != nil {
			return
		}
		a := weburl.Approval{Origin: o, Prefix: outer}
		if a.Admits(u) {
			checkSent(t, a, u)
		}
		inner, err := weburl.ParsePrefix(narrow)
		if err != nil {
			return
		}
		b := weburl.Approval{Origin: o, Prefix: inner}
		if b.Narrower(a) && b.Admits(u) && !a.Admits(u) {
			t.Fatalf("%q is narrower than %q and admits %q", narrow, wide, path)
		}
		if own, err := weburl.Parse(origin + narrow); err == nil && b.Narrower(a) != a.Admits(own) {
			t.Fatalf("%q narrower than %q: %v", narrow, wide, b.Narrower(a))
		}
	})
}
