package embedded

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestSite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startSite(t, dir)
	kept, err := SiteOrigin(dir)
	if err != nil || kept != s.Origin() || !strings.HasPrefix(kept, "https://docs.localhost:") || !strings.HasSuffix(kept, ":"+strconv.Itoa(s.Port())) {
		t.Errorf("origin %q, kept %q, port %d: %v", s.Origin(), kept, s.Port(), err)
	}
	for path, want := range map[string]int{SiteStart: 200, "/docs/returns": 200, "/docs": 404, "/docs/": 404, "/docs/../../site": 404, "/x": 404} {
		status, body := getSite(t, s, path)
		if status != want || want == 200 && !strings.Contains(body, "Brightwater Books") {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	stopSite(t, s)
	again := startSite(t, dir)
	defer stopSite(t, again)
	if again.Origin() != kept {
		t.Errorf("the next run is at %s, not %s", again.Origin(), kept)
	}
	if status, _ := getSite(t, again, SiteStart); status != http.StatusOK {
		t.Errorf("the next run answers %d", status)
	}
}

// TestSiteAuthorityVouchesForNothingElse pins that whoever trusts the authority trusts no other name.
func TestSiteAuthorityVouchesForNothingElse(t *testing.T) {
	t.Parallel()
	certificate, authority, err := newCertificate("docs.localhost", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	leaf, err := x509.ParseCertificate(certificate.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: "docs.localhost"}); err != nil {
		t.Error(err)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: "example.com"}); err == nil {
		t.Error("the certificate is good for example.com")
	}
	if _, _, err := newCertificate("docs.localhost", time.Now()); err != nil {
		t.Error(err)
	}
}

func startSite(t *testing.T, dir string) *Site {
	t.Helper()
	s, err := StartSite(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func stopSite(t *testing.T, s *Site) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
}

func getSite(t *testing.T, s *Site, path string) (status int, body string) {
	t.Helper()
	authority, err := os.ReadFile(s.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port())))
		},
	}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get(s.Origin() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(content)
}
