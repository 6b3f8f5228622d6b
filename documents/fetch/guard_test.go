package fetch_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/documents/fetch"
	"github.com/fetcherhq/fetcher/documents/weburl"
	"github.com/fetcherhq/fetcher/testkit/webtest"
)

// The origin is on 127.0.0.1, which is allowed; the canary sits on the same port of 127.0.0.2, which isn't.
func withCanary(t *testing.T) (*web, *webtest.Origin, *webtest.Canary) {
	t.Helper()
	w := newWeb(t, nil)
	o := webtest.NewOrigin(t, w.ca)
	o.Page("/a", "text/plain", "hi")
	return w, o, webtest.NewCanary(t, "127.0.0.2", o.Port())
}

// A name that is good when it is checked and bad when it would be dialled: there is only one look-up.
func TestRebinding(t *testing.T) {
	t.Parallel()
	w, o, canary := withCanary(t)
	for i := range 200 {
		w.dns.Set(webtest.Host, webtest.Addrs("127.0.0.1"), webtest.Addrs("127.0.0.2"))
		if _, err := w.fetch(t, o.URL("/a"), ""); err != nil {
			t.Fatalf("fetch %d: %v", i, err)
		}
		if a, aaaa := w.dns.Asked(webtest.Host); a != 1 || aaaa != 1 {
			t.Fatalf("fetch %d asked for %d A and %d AAAA", i, a, aaaa)
		}
		_, err := w.fetch(t, o.URL("/a"), "")
		if diff := cmp.Diff("destination_refused 0", outcome(t, err)); diff != "" {
			t.Fatalf("fetch %d, rebound: %s", i, diff)
		}
	}
	canary.Silent(t)
	if n := len(o.Seen()); n != 200 {
		t.Errorf("%d requests for 200 admitted fetches", n)
	}
}

// One bad address among the answers spoils them all, in whatever order, of whatever family.
func TestMixedAnswers(t *testing.T) {
	t.Parallel()
	w, o, canary := withCanary(t)
	mixed := [][]string{
		{"127.0.0.1", "127.0.0.2"}, {"127.0.0.2", "127.0.0.1"}, {"127.0.0.1", "::1"}, {"127.0.0.1", "fd00::1"}, {"127.0.0.1", "10.0.0.1"},
		{"127.0.0.1", "169.254.169.254"}, {"127.0.0.1", "fd00:ec2::254"}, {"127.0.0.1", "fe80::1"}, {"127.0.0.1", "64:ff9b::7f00:2"},
		{"127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.2"},
	}
	for i := range 200 {
		w.dns.Set(webtest.Host, webtest.Addrs(mixed[i%len(mixed)]...))
		_, err := w.fetch(t, o.URL("/a"), "")
		if diff := cmp.Diff("destination_refused 0", outcome(t, err)); diff != "" {
			t.Fatalf("%v: %s", mixed[i%len(mixed)], diff)
		}
	}
	canary.Silent(t)
	if n := o.Connections(); n != 0 {
		t.Errorf("%d connections to the origin", n)
	}
}

// Special-purpose blocks are refused whatever the operator allows, private ones are the operator's choice. That a
// destination is refused is known before a socket is opened; one that isn't refused here is never reached either, for
// the resolver's answer ends in an attempt that is canceled.
func TestDestinations(t *testing.T) {
	t.Parallel()
	const refused = "destination_refused 0"
	w := newWeb(t, nil)
	lists := map[string]dial.Policy{
		"defaults": {}, "private": {AllowPrivate: true}, "all": {Allow: []string{"0.0.0.0/0", "::/0"}}, "name": {Allow: []string{webtest.Host}},
	}
	for _, addr := range []string{
		"169.254.169.254", "169.254.170.2", "168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254",
		"::ffff:169.254.169.254", "::169.254.169.254", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe", "2002:a9fe:a9fe::1",
		"2001:0:4136:e378:8000:63bf:5601:5601", "2606:4700::5efe:a9fe:a9fe", "::ffff:0:a9fe:a9fe", "::ffff:168.63.129.16", "64:ff9b::6464:64c8",
		"0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255", "169.254.1.1", "fe80::1",
		"0.1.2.3", "192.0.0.1", "192.0.2.1", "192.31.196.1", "192.52.193.1", "192.88.99.1", "192.175.48.1", "198.18.0.1", "198.19.255.255",
		"198.51.100.1", "203.0.113.1", "240.0.0.1", "255.255.255.254",
		"64:ff9b::8.8.8.8", "64:ff9b:1::8.8.8.8", "100::1", "100:0:0:1::1", "2001::1", "2001:1::1", "2001:2::1", "2001:3::1", "2001:4:112::1",
		"2001:20::1", "2001:30::1", "2001:db8::1", "2002:808:808::1", "2620:4f:8000::1", "3fff::1", "5f00::1", "fec0::1", "4000::1", "::8.8.8.8",
	} {
		w.dns.Set(webtest.Host, webtest.Addrs(addr))
		for name, policy := range lists {
			w.client = w.newClient(t, func(o *fetch.Options) { o.Policy = policy })
			_, err := w.fetch(t, "https://"+webtest.Host+"/a", "")
			if got := outcome(t, err); got != refused {
				t.Errorf("%s under %s: %s", addr, name, got)
			}
		}
	}
	for _, addr := range []string{"127.0.0.1", "::1", "10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "fd12::1", "::ffff:10.0.0.1"} {
		w.dns.Set(webtest.Host, webtest.Addrs(addr))
		w.client = w.newClient(t, func(o *fetch.Options) { o.Policy = dial.Policy{Allow: []string{"198.18.0.0/15"}} })
		_, err := w.fetch(t, "https://"+webtest.Host+"/a", "")
		if got := outcome(t, err); got != refused {
			t.Errorf("%s unlisted: %s", addr, got)
		}
	}
	for _, name := range []string{"metadata.google.internal", "a.localhost", "printer.local", "db.internal", "x.svc.cluster.local"} {
		w.dns.Set(name, webtest.Addrs("8.8.8.8"))
		w.client = w.newClient(t, func(o *fetch.Options) { o.Policy = dial.Policy{} })
		_, err := w.fetch(t, "https://"+name+"/a", "")
		if got := outcome(t, err); got != refused {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	w := newWeb(t, nil)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(closed.Addr().(*net.TCPAddr).Port)
	_ = closed.Close()
	w.dns.Set("broken.example.com", webtest.Answer{Rcode: 2})
	w.dns.Set("empty.example.com", webtest.Answer{})
	for _, target := range []string{
		"https://unknown.example.com/a", "https://broken.example.com/a", "https://empty.example.com/a", "https://" + webtest.Host + ":" + port + "/a",
	} {
		_, err := w.fetch(t, target, "")
		if diff := cmp.Diff("upstream_unavailable 0", outcome(t, err)); diff != "" {
			t.Errorf("%s: %s", target, diff)
		}
	}
	// A search list would make of docs.example.com something else; names are asked for as they stand.
	if a, _ := w.dns.Asked("broken.example.com"); a == 0 {
		t.Error("the name server was not asked")
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	w := newWeb(t, nil)
	for name, cert := range map[string]tls.Certificate{
		"another authority": webtest.NewCA(t).Issue(t, time.Time{}, webtest.Host),
		"another name":      w.ca.Issue(t, time.Time{}, "other.example.com"),
		"the address only":  w.ca.Issue(t, time.Time{}, "127.0.0.1"),
		"expired":           w.ca.Issue(t, time.Now().Add(-time.Hour), webtest.Host),
	} {
		o := webtest.NewOrigin(t, w.ca, webtest.WithCertificate(cert))
		_, err := w.fetch(t, o.URL("/a"), "")
		if diff := cmp.Diff("upstream_unavailable 0", outcome(t, err)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if n := len(o.Seen()); n != 0 {
			t.Errorf("%s: %d requests", name, n)
		}
	}
	for name, script := range map[string]webtest.Script{
		"plain HTTP": func(c *webtest.RawConn) { c.Send("HTTP/1.1 400 Bad Request\r\n\r\n") },
		"closed":     func(c *webtest.RawConn) { c.Cut() },
		"reset":      func(c *webtest.RawConn) { c.Reset() },
		"an alert":   func(c *webtest.RawConn) { c.Send("\x15\x03\x03\x00\x02\x02\x28") },
	} {
		_, err := w.fetch(t, webtest.NewPlain(t, script).URL("/a"), "")
		if diff := cmp.Diff("upstream_unavailable 0", outcome(t, err)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	w.client = w.newClient(t, func(o *fetch.Options) { o.RootCAs = x509.NewCertPool() })
	o := webtest.NewOrigin(t, w.ca)
	_, err := w.fetch(t, o.URL("/a"), "")
	if diff := cmp.Diff("upstream_unavailable 0", outcome(t, err)); diff != "" {
		t.Errorf("no roots: %s", diff)
	}
}

func TestBadPolicy(t *testing.T) {
	t.Parallel()
	if _, err := fetch.New(fetch.Options{Policy: dial.Policy{Allow: []string{"10.0.0.0/99"}}}); err == nil || !strings.Contains(err.Error(), "10.0.0.0/99") {
		t.Errorf("%v", err)
	}
}

// A caller that leaves ends the fetch, wherever it is, and gets its own reason back.
func TestCallerLeaves(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]func(arrived chan<- struct{}) webtest.Script{
		"before the header": func(arrived chan<- struct{}) webtest.Script {
			return func(c *webtest.RawConn) { c.ReadRequest(); close(arrived); c.Stall() }
		},
		"in the body": func(arrived chan<- struct{}) webtest.Script {
			return func(c *webtest.RawConn) {
				c.ReadRequest()
				c.Send(ok + "Content-Length: 5\r\n\r\nhi")
				close(arrived)
				c.Stall()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWeb(t, nil)
			arrived := make(chan struct{})
			raw := webtest.NewRaw(t, w.ca, script(arrived), "http/1.1")
			u, err := weburl.Parse(raw.URL("/a"))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { <-arrived; cancel() }()
			if _, err = w.client.Fetch(ctx, u, ""); !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
		})
	}
}

const (
	childURL = "FETCH_TEST_URL"
	childDNS = "FETCH_TEST_DNS"
	childCA  = "FETCH_TEST_CA"
)

// Proxies are read from the environment once per process, so that a process of its own has to show that they are not.
func TestNoProxy(t *testing.T) {
	t.Parallel()
	if os.Getenv(childURL) != "" {
		t.Skip("is the child")
	}
	w := newWeb(t, nil)
	proxy := webtest.NewCanary(t, "127.0.0.1", 0)
	address := "127.0.0.1:" + strconv.Itoa(proxy.Port())
	for name, opts := range map[string][]webtest.OriginOption{"HTTP/1.1": {webtest.HTTP1Only}, "HTTP/2": nil} {
		o := webtest.NewOrigin(t, w.ca, opts...)
		o.Page("/a", "text/plain", "hi")
		cmd := exec.Command(os.Args[0], "-test.run=^TestNoProxyChild$", "-test.count=1", "-test.v")
		cmd.Env = append(os.Environ(), childURL+"="+o.URL("/a"), childDNS+"="+w.dns.Addr(), childCA+"="+w.ca.PEMFile(t),
			"HTTP_PROXY=http://"+address, "HTTPS_PROXY=http://"+address, "ALL_PROXY=socks5://"+address,
			"http_proxy=http://"+address, "https_proxy=http://"+address, "all_proxy=socks5://"+address, "NO_PROXY=", "no_proxy=")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestNoProxyChild") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		if n := len(o.Seen()); n != 1 {
			t.Errorf("%s: %d requests", name, n)
		}
	}
	proxy.Silent(t)
}

func TestNoProxyChild(t *testing.T) {
	t.Parallel()
	target := os.Getenv(childURL)
	if target == "" {
		t.Skip("is run by TestNoProxy")
	}
	pem, err := os.ReadFile(os.Getenv(childCA))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	c, err := fetch.New(fetch.Options{
		Policy: dial.Policy{Allow: []string{"127.0.0.1"}}, RootCAs: roots,
		Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, os.Getenv(childDNS))
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	u, err := weburl.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Fetch(t.Context(), u, "")
	if err != nil || string(got.Body) != "hi" {
		t.Errorf("%+v %v", got, err)
	}
}
