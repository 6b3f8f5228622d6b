package handlers_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/auth"
	"github.com/fetcherhq/fetcher/handlers"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
)

func TestOpenEndpoints(t *testing.T) {
	t.Parallel()
	s := newService(t, func(o *handlers.Options) {
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "metrics") })
	})
	if got := s.expect(t, 200, "", http.MethodGet, "/health", "", ""); got.body != `{"status":"healthy"}`+"\n" {
		t.Errorf("health %s", got.body)
	}
	if got := s.expect(t, 200, "", http.MethodHead, "/health", "", ""); got.body != "" {
		t.Errorf("HEAD %s", got.body)
	}
	if got := s.expect(t, 200, "", http.MethodGet, "/metrics", "", ""); got.body != "metrics" {
		t.Errorf("metrics %s", got.body)
	}
	var version struct {
		Version, Commit, GoVersion string
		RequestDate                time.Time
	}
	s.expect(t, 200, "", http.MethodGet, "/version", "", "").decode(t, &version)
	if version.Version != "1.2.3" || version.Commit != "abc" || !strings.HasPrefix(version.GoVersion, "go1.") ||
		time.Since(version.RequestDate) > time.Minute {
		t.Errorf("version %+v", version)
	}
	var ready struct {
		Status         string
		Checks         map[string]map[string]any
		Version        string
		DeploymentMode string `json:"deployment_mode"`
	}
	s.expect(t, 200, "", http.MethodGet, "/readyz", "", "").decode(t, &ready)
	if ready.Status != "healthy" || ready.Checks["control_database"]["status"] != "up" ||
		ready.Checks["control_database"]["latency_ms"] == nil || ready.Version != "1.2.3" || ready.DeploymentMode != "local" {
		t.Errorf("readiness %+v", ready)
	}
	s.health.Drain()
	s.expect(t, 503, "", http.MethodGet, "/readyz", "", "").decode(t, &ready)
	if ready.Status != "unhealthy" || ready.Checks["draining"]["status"] != "down" {
		t.Errorf("draining %+v", ready)
	}
	s.expect(t, 200, "", http.MethodGet, "/health", "", "")
}

func TestTenantReadiness(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	type readiness struct {
		Status   string
		TenantID string `json:"tenant_id"`
		Checks   map[string]map[string]any
	}
	read := func(status int, path string) (r readiness) {
		s.expect(t, status, "", http.MethodGet, path, "", "").decode(t, &r)
		return r
	}
	s.lease(t, "acme")
	r := read(200, "/readyz/tenant/acme")
	if r.Status != "healthy" || r.TenantID != "acme" || r.Checks["tenant_database"]["status"] != "up" ||
		r.Checks["tenant_database"]["latency_ms"] == nil || r.Checks["migrations"]["status"] != "up" ||
		r.Checks["pool"]["status"] != "up" {
		t.Errorf("acme %+v", r)
	}
	for _, member := range []string{"open", "in_use", "idle", "waits"} {
		if r.Checks["pool"][member] == nil {
			t.Errorf("pool lacks %s", member)
		}
	}
	if r = read(503, "/readyz/tenant/globex"); r.Checks["migrations"]["status"] != "down" { // nobody used it yet
		t.Errorf("globex %+v", r)
	}
	_, err := s.control.SetTenantStatus(t.Context(), "globex", control.TenantSuspended)
	must(t, err)
	deadline := time.Now().Add(10 * time.Second)
	for r = read(503, "/readyz/tenant/globex"); r.Checks["tenant_database"]["reason"] != "suspended"; {
		if time.Now().After(deadline) {
			t.Fatalf("not suspended: %+v", r)
		}
		time.Sleep(50 * time.Millisecond) // 20 a second are allowed
		r = read(503, "/readyz/tenant/globex")
	}
	s.expect(t, 404, "FET-1081", http.MethodGet, "/readyz/tenant/nobody", "", "")
	s.expect(t, 404, "FET-1081", http.MethodGet, "/readyz/tenant/-bad%20id", "", "")
	limited := false
	for range 300 {
		if got := s.do(t, http.MethodGet, "/readyz/tenant/acme", "", ""); got.status == http.StatusTooManyRequests {
			limited = true
			if p := got.problem(t); p.Code != "FET-0008" || got.header.Get("Retry-After") == "" {
				t.Errorf("limited by %s", got.body)
			}
			break
		}
	}
	if !limited {
		t.Error("300 requests at once were not limited")
	}
}

// TestAuthenticationOff runs every request as the anonymous principal.
func TestAuthenticationOff(t *testing.T) {
	t.Parallel()
	s := newService(t, func(o *handlers.Options) { o.Auth = auth.Disabled{TenantID: "acme"} })
	d := external(t)
	for _, token := range []string{"", "garbage"} {
		s.expect(t, http.StatusOK, "", http.MethodGet, connectionsPath, token, "")
	}
	s.expect(t, http.StatusCreated, "", http.MethodPost, connectionsPath, "", describe(t, d, "orders", nil), "X-Product-Name", "p")
	s.expect(t, http.StatusMethodNotAllowed, "FET-0417", http.MethodPut, connectionsPath, "", "")
}

func TestDeadTenantDatabase(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	sealed, err := tenant.SealDSN(s.keys, "globex", "postgres://u:canary@127.0.0.1:1/nowhere")
	must(t, err)
	_, err = s.control.SetTenantDSN(t.Context(), "globex", sealed)
	must(t, err)
	got := s.expect(t, http.StatusServiceUnavailable, "FET-1082", http.MethodGet, connectionsPath, s.token("globex"), "")
	if got.header.Get("Retry-After") == "" || strings.Contains(got.body, "127.0.0.1") {
		t.Errorf("%v %s", got.header, got.body)
	}
	if strings.Contains(s.logs.String(), "canary") {
		t.Error("the log tells the password")
	}
}

// TestServerDrains checks the order of an end: readiness, a delay in which requests are still taken, the listener, the
// requests under way.
func TestServerDrains(t *testing.T) {
	t.Parallel()
	health, err := handlers.NewHealth(handlers.HealthOptions{})
	must(t, err)
	entered, release := make(chan struct{}), make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/slow", func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-release
		_, _ = io.WriteString(w, "done")
	})
	worker, err := handlers.NewHealthHandler(health, nil)
	must(t, err)
	mux.Handle("/", worker)
	server, err := handlers.NewServer(handlers.ServerOptions{
		Address: "127.0.0.1:0", Handler: mux, Health: health, DrainDelay: 300 * time.Millisecond, Grace: 10 * time.Second,
	})
	must(t, err)
	must(t, server.Listen(t.Context()))
	base := "http://" + server.Addr().String()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	status := func(path string) int {
		resp, err := client.Get(base + path)
		if err != nil {
			return 0
		}
		defer func() { _ = resp.Body.Close() }()
		return resp.StatusCode
	}
	if got := status("/readyz"); got != 200 {
		t.Fatalf("readiness %d", got)
	}
	slow := make(chan int, 1)
	go func() { slow <- status("/slow") }()
	<-entered
	stop()
	deadline := time.Now().Add(10 * time.Second)
	for !health.Draining() && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	if got := status("/readyz"); got != 503 {
		t.Errorf("readiness while draining %d", got)
	}
	for status("/health") != 0 {
		if time.Now().After(deadline) {
			t.Fatal("the listener does not close")
		}
		time.Sleep(10 * time.Millisecond)
	}
	select {
	case err := <-ended:
		t.Fatalf("the server ended with a request under way: %v", err)
	default:
	}
	close(release)
	if got := <-slow; got != 200 {
		t.Errorf("the request under way got %d", got)
	}
	must(t, <-ended)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key := selfSigned(t)
	health, err := handlers.NewHealth(handlers.HealthOptions{})
	must(t, err)
	handler, err := handlers.NewHealthHandler(health, nil)
	must(t, err)
	server, err := handlers.NewServer(handlers.ServerOptions{Address: "127.0.0.1:0", Handler: handler, TLSCert: cert, TLSKey: key})
	must(t, err)
	must(t, server.Listen(t.Context()))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	pool := x509.NewCertPool()
	text, err := os.ReadFile(cert)
	must(t, err)
	pool.AppendCertsFromPEM(text)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	resp, err := (&http.Client{Transport: transport}).Get("https://" + server.Addr().String() + "/health")
	must(t, err)
	_ = resp.Body.Close()
	if got := resp.Header.Get("Strict-Transport-Security"); !strings.HasPrefix(got, "max-age=") {
		t.Errorf("Strict-Transport-Security %q", got)
	}
	if diff := cmp.Diff("HTTP/2.0", resp.Proto); diff != "" {
		t.Error(diff)
	}
	transport.CloseIdleConnections()
	stop()
	must(t, <-ended)
	if _, err := handlers.NewServer(handlers.ServerOptions{TLSCert: cert}); err == nil {
		t.Error("a certificate without its key is accepted")
	}
}

func selfSigned(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	must(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	must(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600))
	return cert, key
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	if _, err := handlers.New(handlers.Options{}); err == nil {
		t.Error("New accepts nothing at all")
	}
}

// TestAccessLog reads the line of one request.
func TestAccessLog(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	s.expect(t, 200, "", http.MethodGet, connectionsPath+"?metadata.k=canary", s.token("acme"), "",
		"X-Request-Id", "the-one", "traceparent", parent)
	for line := range strings.SplitSeq(s.logs.String(), "\n") {
		var entry map[string]any
		if json.Unmarshal([]byte(line), &entry) != nil || entry["msg"] != "request" || entry["request_id"] != "the-one" {
			continue
		}
		if entry["duration_ms"] == nil || entry["bytes"] == float64(0) {
			t.Errorf("the line lacks duration or size: %s", line)
		}
		if strings.Count(line, `"trace_id"`) != 1 || strings.Count(line, `"request_id"`) != 1 || entry["span_id"] == nil {
			t.Errorf("the line names its ids other than once: %s", line)
		}
		for _, member := range []string{"time", "level", "msg", "duration_ms", "bytes", "span_id"} {
			delete(entry, member)
		}
		want := map[string]any{
			"method": "GET", "route": connectionsPath, "status": float64(200), "tenant": "acme", "subject": "acme/user",
			"request_id": "the-one", "trace_id": "0af7651916cd43dd8448eb211c80319c",
		}
		if diff := cmp.Diff(want, entry); diff != "" {
			t.Error(diff)
		}
		return
	}
	t.Error("no line in the log")
}
