package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

const managed = "/v1/management/connections"

type listed struct {
	ID          string
	ConfigName  string
	ProductName *string
	Host        string
	Port        int
}

func list(t *testing.T, c blackbox.Client, path string) []listed {
	t.Helper()
	var page struct{ Items []listed }
	c.Expect(t, http.StatusOK, http.MethodGet, path, nil).Decode(t, &page)
	return page.Items
}

// launch starts a manager or both roles beside d and returns its address once it answers.
func launch(t *testing.T, role string, env ...string) string {
	t.Helper()
	p, address := launchProcess(t, role, env...)
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return address
}

// launchProcess is launch for a process that the test ends itself, or that is killed with the test.
func launchProcess(t *testing.T, role string, env ...string) (p *blackbox.Process, address string) {
	t.Helper()
	p, err := binary.Launch(append(env, "SERVER_ADDRESS=127.0.0.1:0", "READYZ_DRAIN_DELAY_SEC=0"), role)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p, started(t, p)
}

func TestPlantedConnectionFollowsTheServer(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	d, err := binary.LaunchDev(dir)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	for _, tenant := range []string{"acme", "globex"} {
		got := list(t, d.Client(tenant, "viewer"), managed+"/unassigned")
		if len(got) != 1 || got[0].ConfigName != "unassigned_demo" || got[0].ProductName != nil {
			t.Fatalf("%s: unassigned %+v", tenant, got)
		}
		ids[tenant] = got[0].ID
	}
	if ids["acme"] == ids["globex"] {
		t.Error("two tenants share one connection")
	}
	if err = d.Stop(); err != nil {
		t.Fatal(err)
	}
	if d, err = binary.LaunchDev(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, tenant := range []string{"acme", "globex"} {
		c := d.Client(tenant, "operator")
		want := []listed{{ID: ids[tenant], ConfigName: "unassigned_demo", Host: d.Info.Sample.Host, Port: d.Info.Sample.Port}}
		if diff := cmp.Diff(want, list(t, c, managed+"/unassigned")); diff != "" {
			t.Error(tenant, diff)
		}
		c.Expect(t, http.StatusOK, http.MethodPost, managed+"/"+ids[tenant]+"/test", nil)
	}
	c := d.Client("acme", "operator")
	request := map[string]any{
		"dataRequest": map[string]any{"mappedFields": map[string]any{"unassigned_demo": map[string]any{"transactions": []string{"id"}}}},
		"metadata":    map[string]any{"source": "ledger"},
	}
	var refused blackbox.Problem
	c.Expect(t, http.StatusBadRequest, http.MethodPost, "/v1/fetcher", request).Decode(t, &refused)
	if refused.Code != "FET-1014" {
		t.Errorf("a job with it: %+v", refused)
	}
	c.Expect(t, http.StatusOK, http.MethodPost, managed+"/"+ids["acme"]+"/assign", nil, "X-Product-Name", "ledger")
	if j := c.AwaitCompleted(t, c.Submit(t, request), blackbox.StartTimeout); j.Result.RowCount != 200_000 {
		t.Errorf("%d rows", j.Result.RowCount)
	}
}

// The gateway refuses loopback to its tenants, and reads the platform's own database there.
func TestInternalDatasourceBesideTheGuard(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--no-worker")
	s := d.Info.Sample
	env := append(d.Env(t),
		"ALLOW_PRIVATE_HOSTS=10.0.0.0/8", "CORS_ALLOWED_ORIGINS=https://app.example.com",
		"DATASOURCE_SAMPLE_CONFIG_NAME=platform_sample", "DATASOURCE_SAMPLE_TYPE="+s.Type, "DATASOURCE_SAMPLE_HOST="+s.Host,
		fmt.Sprintf("DATASOURCE_SAMPLE_PORT=%d", s.Port), "DATASOURCE_SAMPLE_DATABASE="+s.DatabaseName,
		"DATASOURCE_SAMPLE_USER="+s.UserName, "DATASOURCE_SAMPLE_PASSWORD="+s.Password, "DATASOURCE_SAMPLE_TENANTS=acme")
	base := launch(t, "serve", env...)
	acme, globex := d.Client("acme", "operator"), d.Client("globex", "operator")
	acme.Base, globex.Base = base, base

	items := list(t, acme, managed)
	if len(items) != 2 || items[0].ConfigName != "platform_sample" || items[0].ProductName != nil {
		t.Fatalf("acme sees %+v", items)
	}
	id := items[0].ID
	acme.Expect(t, http.StatusOK, http.MethodPost, managed+"/"+id+"/test", nil)
	acme.Expect(t, http.StatusOK, http.MethodGet, managed+"/"+id+"/schema", nil)
	acme.Expect(t, http.StatusBadRequest, http.MethodPost, managed+"/"+items[1].ID+"/test", nil) // FET-0414: its own, on loopback
	job := acme.Extract(t, "any-product", "platform_sample", "transactions", "id")
	if j := acme.AwaitCompleted(t, job, blackbox.StartTimeout); j.Result.RowCount != 200_000 {
		t.Errorf("%d rows", j.Result.RowCount)
	}

	if items := list(t, globex, managed); len(items) != 1 || items[0].ConfigName != "unassigned_demo" {
		t.Errorf("globex sees %+v", items)
	}
	globex.Expect(t, http.StatusNotFound, http.MethodGet, managed+"/"+id, nil)
	var refused blackbox.Problem
	globex.Expect(t, http.StatusBadRequest, http.MethodPost, "/v1/fetcher", map[string]any{
		"dataRequest": map[string]any{"mappedFields": map[string]any{"platform_sample": map[string]any{"transactions": []string{"id"}}}},
		"metadata":    map[string]any{"source": "ledger"},
	}).Decode(t, &refused)
	if refused.Code != "FET-1020" {
		t.Errorf("globex's job: %+v", refused)
	}

	preflight := blackbox.Client{Base: base}.Expect(t, http.StatusNoContent, http.MethodOptions, managed, nil,
		"Origin", "https://app.example.com", "Access-Control-Request-Method", "POST")
	if got := preflight.Header.Get("Access-Control-Allow-Origin"); got != "https://app.example.com" {
		t.Errorf("allowed origin %q", got)
	}
}

func TestTenantRateLimitOfAProcess(t *testing.T) {
	t.Parallel()
	d := shared(t)
	c := d.Client("globex", "viewer")
	c.Base = launch(t, "manager", append(d.Env(t), "TENANT_RATE_LIMIT=0.001")...)
	c.Expect(t, http.StatusOK, http.MethodGet, managed, nil)
	got := c.Expect(t, http.StatusTooManyRequests, http.MethodGet, managed, nil)
	var refused blackbox.Problem
	got.Decode(t, &refused)
	if refused.Code != "FET-0008" || got.Header.Get("Retry-After") == "" {
		t.Errorf("got %+v, Retry-After %q", refused, got.Header.Get("Retry-After"))
	}
}
