package e2e

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/testkit"
	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

// TestTenantLabels: 60 tenants, 1,000 in `make load`, use one manager while it is scraped. Fifty have labels of their
// own and the rest one together; paths and methods that callers make up are one label, too.
func TestTenantLabels(t *testing.T) {
	t.Parallel()
	tenants := 60
	if os.Getenv("FETCHER_LOAD") != "" {
		tenants = 1000
	}
	server, issuer, key := testkit.NewServer(t), testkit.Issuer(t), secret.GenerateKey()
	database := server.NewDatabase(t)
	env := []string{"DATABASE_URL=" + database, "APP_ENC_KEY=" + key, "MULTI_TENANT_ENABLED=true", "RESULTS_URL=file://" + t.TempDir(),
		"PLUGIN_AUTH_ENABLED=true", "PLUGIN_AUTH_ADDRESS=" + issuer.URL(), "MULTI_TENANT_MAX_TENANT_POOLS=80"}
	binary.Command(t, env[:3], "migrate")
	names, _ := registerUnmigrated(t, server, database, key, tenants)
	base := launch(t, "manager", env...)
	seen := map[string]map[string]bool{"tenant": {}, "http_route": {}, "http_request_method": {}}
	const atOnce = 4
	for i := 0; i < len(names); i += 20 {
		var group errgroup.Group
		group.SetLimit(atOnce)
		for _, name := range names[i:min(i+20, len(names))] {
			client := blackbox.Client{Base: base, Token: issuer.Token(testkit.Token{Tenant: name})}
			group.Go(func() error {
				if got := client.Do(t, http.MethodGet, "/v1/management/connections", nil, "X-Product-Name", "labels"); got.Status != http.StatusOK {
					t.Errorf("%s: %d %s", name, got.Status, got.Body)
				}
				client.Do(t, "MADEUP"+name, "/made/up/"+name, nil)
				return nil
			})
		}
		must(t, group.Wait())
		labelValues(t, base, seen)
	}
	if got := len(seen["tenant"]); got != 51 || !seen["tenant"]["other"] {
		t.Errorf("%d labels of tenants, want 50 and other: %v", got, seen["tenant"])
	}
	if diff := cmp.Diff(map[string]bool{"/v1/management/connections": true, "unknown": true, "/metrics": true}, seen["http_route"]); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]bool{"GET": true, "_OTHER": true}, seen["http_request_method"]); diff != "" {
		t.Errorf("methods (-want +got):\n%s", diff)
	}
}

// labelValues adds the values that the labels in seen have in /metrics.
func labelValues(t *testing.T, base string, seen map[string]map[string]bool) {
	t.Helper()
	answer, err := http.Get(base + "/metrics")
	must(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	must(t, err)
	for _, match := range regexp.MustCompile(`[{,]([a-z_]+)="([^"]*)"`).FindAllStringSubmatch(string(body), -1) {
		if values, ok := seen[match[1]]; ok {
			values[match[2]] = true
		}
	}
}
