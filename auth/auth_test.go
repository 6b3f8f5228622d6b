package auth

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/fetcherhq/fetcher/problem"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	o := Options{Address: "https://identity.test//"}
	if err := o.complete(); err != nil {
		t.Fatal(err)
	}
	if o.Address != "https://identity.test" || o.Mode != ModeService || o.Timeout != 3*time.Second ||
		o.RefreshInterval != 5*time.Minute || o.Application != "fetcher" || o.CacheTTL != 0 {
		t.Errorf("options = %+v", o)
	}
}

func TestNewRefusesMistakes(t *testing.T) {
	t.Parallel()
	good := Options{Address: "https://identity.test"}
	for name, change := range map[string]func(*Options){
		"no address":        func(o *Options) { o.Address = "" },
		"relative address":  func(o *Options) { o.Address = "identity.test" },
		"odd scheme":        func(o *Options) { o.Address = "ftp://identity.test" },
		"odd key set":       func(o *Options) { o.JWKSURL = "/keys" },
		"odd mode":          func(o *Options) { o.Mode = "both" },
		"negative life":     func(o *Options) { o.CacheTTL = -1 },
		"negative timeout":  func(o *Options) { o.Timeout = -1 },
		"negative interval": func(o *Options) { o.RefreshInterval = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := good
			change(&o)
			if a, err := New(t.Context(), o); err == nil {
				a.Close()
				t.Error("no error")
			}
		})
	}
}

// The context of New bounds nothing later: a process that drains still has its requests authorised.
func TestOutlivesTheContextOfNew(t *testing.T) {
	t.Parallel()
	good := rsaSigner("k1", 0)
	id := newIdentity(t, good)
	ctx, cancel := context.WithCancel(t.Context())
	a, err := New(ctx, Options{Address: id.URL, Clock: (&clock{}).now})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	cancel()
	p, err := a.Authenticate(t.Context(), bearer(good.sign(t, userClaims(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	if err = a.Authorize(t.Context(), p, "connections", "get"); err != nil {
		t.Error(err)
	}
}

func TestGivenClientAndTLS(t *testing.T) {
	t.Parallel()
	good := rsaSigner("k1", 0)
	id := newIdentity(t, good)
	secure := httptest.NewTLSServer(id)
	t.Cleanup(secure.Close)
	id.set(func() {
		id.discovery = map[string]any{"issuer": "https://issuer.test", "jwks_uri": secure.URL + "/keys"}
	})

	given := secure.Client()
	a, _ := id.open(t, func(o *Options) { o.Address, o.HTTP = secure.URL, given })
	wantCode(t, "token", verifyCode(t, a, good.sign(t, userClaims(), nil)), "")
	if diff := cmp.Diff(Status{State: StateUp, TLS: true}, a.Status(t.Context())); diff != "" {
		t.Error(diff)
	}
	if given.CheckRedirect != nil {
		t.Error("the given client was changed")
	}

	distrustful, _ := id.open(t, func(o *Options) { o.Address = secure.URL })
	wantCode(t, "untrusted", verifyCode(t, distrustful, good.sign(t, userClaims(), nil)), problem.Unavailable)
	if diff := cmp.Diff(Status{State: StateDown, TLS: true, Reason: "tls"}, distrustful.Status(t.Context())); diff != "" {
		t.Error(diff)
	}
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	var target string
	hops := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/end" {
			_, _ = io.WriteString(w, r.Header.Get("Authorization"))
			return
		}
		hops++
		http.Redirect(w, r, target, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(server.Close)
	c := newClient(nil)
	t.Cleanup(c.close)

	target = "/end"
	if _, err := c.get(t.Context(), server.URL); err != nil {
		t.Errorf("one redirect of a read: %v", err)
	}
	if o, err := c.ask(t.Context(), server.URL, "token", question{}); o != outcomeUnavailable || err == nil {
		t.Errorf("redirect of a question: %v, %v", o, err)
	}
	target, hops = "/again", 0
	if _, err := c.get(t.Context(), server.URL); err == nil || hops != maxRedirects+1 {
		t.Errorf("endless redirects: %d hops, %v", hops, err)
	}

	secure := httptest.NewTLSServer(http.RedirectHandler(server.URL+"/end", http.StatusFound))
	t.Cleanup(secure.Close)
	if _, err := newClient(secure.Client()).get(t.Context(), secure.URL); err == nil || err.Error() != errRedirect.Error() {
		t.Errorf("redirect from https to http: %v", err)
	}
}

func TestNetworkErrorsNameNoAddress(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := "http://user:canary@" + closed.Addr().String()
	_ = closed.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	c := newClient(&http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}})
	for url, want := range map[string]string{
		refused: "refused",
		strings.Replace(plain.URL, "http:", "https:", 1): "network",
		"http://no-such-name.invalid":                    "dns",
		"://":                                            "make request: not a URL",
		plain.URL:                                        "status 404",
	} {
		if _, err := c.get(t.Context(), url); err == nil || err.Error() != want {
			t.Errorf("get %s: %v, want %s", url, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.get(ctx, plain.URL); err == nil || err.Error() != context.Canceled.Error() {
		t.Errorf("canceled: %v", err)
	}
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	c, err := newCache[digest, int](64)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10_000 {
		c.put(digestOf(fmt.Sprint(i)), i, start.Add(time.Hour))
	}
	n := 0
	for _, s := range c.shards {
		n += s.Len()
	}
	if n > 64 || n < 32 {
		t.Errorf("%d entries", n)
	}
	if v, ok := c.get(digestOf("9999"), start); !ok || v != 9999 {
		t.Errorf("the newest = %d, %v", v, ok)
	}
}

// Nothing that is logged may have the token, the address or what the claims say in it.
func TestLogsHaveNoSecrets(t *testing.T) {
	t.Parallel()
	good := rsaSigner("k1", 0)
	id := newIdentity(t, good)
	var logs bytes.Buffer
	a, _ := id.open(t, func(o *Options) { o.Logger = slog.New(slog.NewJSONHandler(&logs, nil)) })
	loaded(t, a)
	token := good.sign(t, with(userClaims(), jwt.MapClaims{"sub": "canary"}), nil)
	p, err := a.Verify(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	id.set(func() { id.down = true })
	wantCode(t, "authorize", authorizeCode(t.Context(), a, p, "get"), problem.Unavailable)
	wantCode(t, "unknown key", verifyCode(t, a, edSigner(t, "canary").sign(t, userClaims(), nil)), problem.Unavailable)
	a.Close()
	text := logs.String()
	for _, secret := range []string{"canary", segment(token, 1), strings.TrimPrefix(id.URL, "http://")} {
		if strings.Contains(text, secret) {
			t.Errorf("logs contain %q:\n%s", secret, text)
		}
	}
	if !strings.Contains(text, "keys loaded") || !strings.Contains(text, "keys not refreshed") {
		t.Errorf("logs:\n%s", text)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	good := rsaSigner("k1", 0)
	id := newIdentity(t, good)
	reader := metric.NewManualReader()
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	a, c := id.open(t, func(o *Options) { o.Meter = provider.Meter("auth") })
	loaded(t, a)
	p := principal(t, a, good, userClaims())
	for range 3 {
		_, _ = a.Verify(t.Context(), p.Token)
		_ = a.Authorize(t.Context(), p, "connections", "get")
	}
	_, _ = a.Verify(t.Context(), "abc")
	_, _ = a.Verify(t.Context(), edSigner(t, "nobody").sign(t, userClaims(), nil))
	c.advance(2 * time.Hour)
	_, _ = a.Verify(t.Context(), p.Token)

	got := map[string]int64{}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, d := range data.DataPoints {
				if d.Value != 0 {
					got[m.Name+" "+d.Attributes.Encoded(attribute.DefaultEncoder())] = d.Value
				}
			}
		case metricdata.Histogram[float64]:
			for _, d := range data.DataPoints {
				got[m.Name+" "+d.Attributes.Encoded(attribute.DefaultEncoder())] = int64(d.Count)
			}
		}
	}
	want := map[string]int64{
		"fetcher.auth.tokens result=verified":                      1,
		"fetcher.auth.tokens result=cached":                        3,
		"fetcher.auth.tokens result=malformed":                     1,
		"fetcher.auth.tokens result=unknown_key":                   1,
		"fetcher.auth.tokens result=expired":                       1,
		"fetcher.auth.decisions decision=allow,source=service":     1,
		"fetcher.auth.decisions decision=allow,source=cache":       2,
		"fetcher.auth.key.refreshes result=ok,trigger=time":        1,
		"fetcher.auth.key.refreshes result=ok,trigger=unknown_key": 1,
		"fetcher.auth.authorize.duration decision=allow":           1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	a.Close()
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Errorf("collect after Close: %v", err)
	}
}

func FuzzOutcomeOf(f *testing.F) {
	for _, s := range []string{`{"authorized":true}`, `{"authorized":false}`, `{}`, `{"authorized":null}`, `{"authorized":true}{}`, ""} {
		f.Add(200, []byte(s))
		f.Add(403, []byte(s))
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		o, err := outcomeOf(status, body)
		if (err != nil) != (o == outcomeUnavailable) {
			t.Fatalf("outcome %d with %v", o, err)
		}
		if o == outcomeAllow && (status != http.StatusOK || !bytes.Contains(body, []byte("true"))) {
			t.Fatalf("%d %q allows", status, body)
		}
	})
}
