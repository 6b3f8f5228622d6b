package handlers_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/handlers"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
	"github.com/fetcherhq/fetcher/testkit"
)

// lease returns a lease of the tenant until the test ends.
func (s *service) lease(t *testing.T, tenantID string) *tenant.Lease {
	t.Helper()
	lease, err := s.tenants.Acquire(t.Context(), tenantID)
	must(t, err)
	t.Cleanup(lease.Release)
	return lease
}

// external is a database to connect to, with a few objects in it.
func external(t *testing.T) testkit.Database {
	t.Helper()
	d := testkit.Postgres(t).CreateDatabase(t, testkit.DatabaseOptions{})
	execAs(t, d.DSN,
		`CREATE TABLE "Order" (id bigint PRIMARY KEY, total numeric(10,2), "note" text NOT NULL)`,
		`CREATE VIEW big AS SELECT id FROM "Order" WHERE total > 100`,
		`CREATE SCHEMA sales`, `CREATE TABLE sales.region (code text)`)
	return d
}

// describe is a create-connection body for the database, with changes applied; a nil removes the member.
func describe(t *testing.T, d testkit.Database, name string, changes map[string]any) string {
	t.Helper()
	body := map[string]any{
		"configName": name, "type": "POSTGRESQL", "host": d.Host, "port": d.Port, "databaseName": d.Name,
		"userName": d.Owner, "password": d.Password, "ssl": map[string]any{"mode": "disable"},
	}
	for member, value := range changes {
		body[member] = value
		if value == nil {
			delete(body, member)
		}
	}
	text, err := json.Marshal(body)
	must(t, err)
	return string(text)
}

func (s *service) create(t *testing.T, tenantID, body string) (id string, got answer) {
	t.Helper()
	got = s.expect(t, http.StatusCreated, "", http.MethodPost, connectionsPath, s.token(tenantID), body, "X-Product-Name", "ledger")
	var made struct{ ID string }
	got.decode(t, &made)
	return made.ID, got
}

func TestConnectionLife(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	d := external(t)
	const metadata = `{"z":1.10,"a":{"big":12345678901234567890123,"e":"\u00e9\/"},"list":[1,null,true]}`
	body := strings.Replace(describe(t, d, "orders-db", map[string]any{"metadata": "M"}), `"M"`, metadata, 1)
	got := s.expect(t, http.StatusCreated, "", http.MethodPost, connectionsPath, s.token("acme"), body, "X-Product-Name", " Ledger ")
	var made struct{ ID string }
	got.decode(t, &made)
	if location := got.header.Get("Location"); location != connectionsPath+"/"+made.ID {
		t.Errorf("Location %q", location)
	}
	if tag := got.header.Get("ETag"); tag != `"1"` {
		t.Errorf("ETag %q", tag)
	}
	if id, err := uuid.Parse(made.ID); err != nil || id.Version() != 7 {
		t.Errorf("id %q", made.ID)
	}
	if !strings.Contains(got.body, `"metadata":`+metadata) {
		t.Errorf("the metadata changed: %s", got.body)
	}
	if strings.Contains(got.body, d.Password) || strings.Contains(got.body, "password") {
		t.Errorf("the answer tells the password: %s", got.body)
	}
	var members map[string]any
	got.decode(t, &members)
	keys := slices.Sorted(maps.Keys(members))
	want := []string{
		"configName", "createdAt", "databaseName", "host", "id", "metadata", "port", "productName", "ssl", "type",
		"updatedAt", "userName",
	}
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Error(diff)
	}
	if members["productName"] != "ledger" {
		t.Errorf("product %v", members["productName"])
	}
	if created, ok := members["createdAt"].(string); !ok || !strings.HasSuffix(created, "Z") {
		t.Errorf("createdAt %v is not in UTC", members["createdAt"])
	}
	read := s.expect(t, http.StatusOK, "", http.MethodGet, connectionsPath+"/"+strings.ToUpper(made.ID), s.token("acme"), "")
	if diff := cmp.Diff(got.body, read.body); diff != "" {
		t.Error("read differs from created:", diff)
	}
	if read.header.Get("ETag") != `"1"` || read.header.Get("Content-Type") != "application/json" {
		t.Errorf("headers %v", read.header)
	}
	s.expect(t, http.StatusConflict, "FET-1002", http.MethodPost, connectionsPath, s.token("acme"), body, "X-Product-Name", "other")
	s.create(t, "globex", body)
}

func TestConnectionProbes(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	d := external(t)
	id, _ := s.create(t, "acme", describe(t, d, "orders", nil))
	var result struct {
		Status, Message string
		LatencyMS       *int64 `json:"latencyMs"`
	}
	s.expect(t, http.StatusOK, "", http.MethodPost, connectionsPath+"/"+id+"/test", s.token("acme"), "").decode(t, &result)
	if result.Status != "success" || result.Message == "" || result.LatencyMS == nil {
		t.Errorf("got %+v", result)
	}
	schema := s.expect(t, http.StatusOK, "", http.MethodGet, connectionsPath+"/"+id+"/schema", s.token("acme"), "")
	want := fmt.Sprintf(`{"id":%q,"configName":"orders","databaseName":%q,"type":"POSTGRESQL","tables":[`+
		`{"name":"Order","fields":["id","note","total"]},{"name":"big","fields":["id"]},{"name":"sales.region","fields":["code"]}]}`+"\n",
		id, d.Name)
	if diff := cmp.Diff(want, schema.body); diff != "" {
		t.Error(diff)
	}
	details := s.expect(t, http.StatusOK, "", http.MethodGet, connectionsPath+"/"+id+"/schema?details=true", s.token("acme"), "")
	for _, field := range []string{
		`{"name":"id","type":"bigint","nullable":false,"primaryKey":true,"position":1}`,
		`{"name":"note","type":"text","nullable":false,"primaryKey":false,"position":3}`,
	} {
		if !strings.Contains(details.body, field) {
			t.Errorf("%s is not in %s", field, details.body)
		}
	}
	wrong, _ := s.create(t, "acme", describe(t, d, "wrong-password", map[string]any{"password": "canary-secret"}))
	refused := s.expect(t, http.StatusUnprocessableEntity, "FET-1040", http.MethodPost, connectionsPath+"/"+wrong+"/test", s.token("acme"), "")
	if p := refused.problem(t); !strings.Contains(p.Detail, "auth") {
		t.Errorf("detail %q", p.Detail)
	}
	closed, _ := s.create(t, "acme", describe(t, d, "closed-port", map[string]any{"port": 1}))
	refused = s.expect(t, http.StatusUnprocessableEntity, "FET-1040", http.MethodGet, connectionsPath+"/"+closed+"/schema", s.token("acme"), "")
	if p := refused.problem(t); !strings.Contains(p.Detail, "refused") || strings.Contains(refused.body, d.Host) {
		t.Errorf("detail %q", p.Detail)
	}
	if strings.Contains(s.logs.String(), "canary-secret") {
		t.Error("the log tells the password")
	}
}

func TestListConnections(t *testing.T) {
	t.Parallel()
	now := time.Date(2024, 3, 30, 15, 0, 0, 0, time.UTC)
	s := newService(t, func(o *handlers.Options) { o.Clock = func() time.Time { return now } })
	db := store.NewConnections(s.lease(t, "acme").DB(t.Context()))
	add := func(name, kind, product, created, metadata string) {
		at, err := time.Parse(time.RFC3339, created)
		must(t, err)
		c := store.Connection{
			ID: uuid.Must(uuid.NewV7()), ConfigName: name, Kind: kind, Host: "db", Port: 1, DatabaseName: "d", UserName: "u",
			PasswordSealed: []byte("x"), KeyVersion: 1, Metadata: []byte(metadata), CreatedAt: at, UpdatedAt: at,
		}
		if product != "" {
			c.ProductName = &product
		}
		must(t, db.Create(t.Context(), &c))
	}
	add("before", "MYSQL", "ledger", "2024-02-28T23:59:59.999999Z", `{}`)
	add("first", "POSTGRESQL", "ledger", "2024-02-29T00:00:00Z", `{"team":"core","n":5,"deep":{"a.b":"x","on":true}}`)
	add("middle", "MYSQL", "billing", "2024-03-15T12:00:00Z", `{"team":"core","n":"5","deep":{"a":{"b":"y"}}}`)
	add("none", "MYSQL", "", "2024-03-16T12:00:00Z", `{"n":50,"t":"true"}`)
	add("last", "POSTGRESQL", "ledger", "2024-03-31T00:00:00Z", `{"n":5.0}`)
	add("after", "MYSQL", "ledger", "2024-03-31T00:00:00.000001Z", `{}`)

	for name, tc := range map[string]struct {
		query   string
		product string
		want    string // names, then total
	}{
		"default window":           {"", "", "last none middle first 4"},
		"ascending":                {"sortOrder=ASC", "", "first middle none last 4"},
		"page one":                 {"limit=3", "", "last none middle 4"},
		"page two":                 {"limit=3&page=2", "", "first 4"},
		"page beyond":              {"limit=3&page=3", "", " 4"},
		"page far beyond":          {"page=9223372036854775807", "", " 4"},
		"product":                  {"", "LEDGER", "last first 2"},
		"other product":            {"", "nobody", " 0"},
		"type":                     {"type=mysql", "", "none middle 2"},
		"type and product":         {"type=mySQL", "billing", "middle 1"},
		"unknown type":             {"type=%F0%9F%A6%86", "", " 0"},
		"empty type":               {"type=", "", "last none middle first 4"},
		"start only":               {"startDate=2024-03-15", "", "middle 1"},
		"end only":                 {"endDate=2024-03-15", "", "first before 2"},
		"end is exclusive of day":  {"startDate=2024-03-01&endDate=2024-03-16", "", "middle 1"},
		"equal dates":              {"startDate=2024-03-15&endDate=2024-03-15", "", "middle 1"},
		"clamped":                  {"startDate=2023-01-01&endDate=2024-03-29", "", "none middle first 3"},
		"metadata string":          {"metadata.team=core", "", "middle first 2"},
		"metadata number":          {"metadata.n=5", "", "middle first 2"},
		"metadata number text":     {"metadata.n=5.0", "", "last 1"},
		"metadata boolean":         {"metadata.deep.on=true", "", "first 1"},
		"metadata boolean or text": {"metadata.t=true", "", "none 1"},
		"metadata nested":          {"metadata.deep.a.b=y", "", "middle 1"},
		"metadata combined":        {"metadata.team=core&metadata.n=5&type=mysql", "", "middle 1"},
		"metadata without match":   {"metadata.team=co", "", " 0"},
		"metadata object":          {"metadata.deep=x", "", " 0"},
		"metadata empty":           {"metadata.team=", "", "last none middle first 4"},
		"unknown parameters":       {"foo=bar&PAGE=0", "", "last none middle first 4"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var headers []string
			if tc.product != "" {
				headers = []string{"X-Product-Name", tc.product}
			}
			got := s.expect(t, http.StatusOK, "", http.MethodGet, connectionsPath+"?"+tc.query, s.token("acme"), "", headers...)
			var page struct {
				Items []struct{ ConfigName string }
				Total int
			}
			got.decode(t, &page)
			names := make([]string, 0, len(page.Items))
			for _, item := range page.Items {
				names = append(names, item.ConfigName)
			}
			if diff := cmp.Diff(tc.want, fmt.Sprintf("%s %d", strings.Join(names, " "), page.Total)); diff != "" {
				t.Error(diff)
			}
			if page.Items == nil {
				t.Errorf("items is null: %s", got.body)
			}
		})
	}
	for query, code := range map[string]string{
		"page=0": "FET-0405", "limit=101": "FET-0406", "sortOrder=x": "FET-0407", "startDate=x": "FET-0408",
		"startDate=2024-02-02&endDate=2024-02-01": "FET-0409", "$where=1": "FET-0405", "metadata._x=1": "FET-0405",
		"type=" + url.QueryEscape("a\x00b"): "FET-0405",
	} {
		s.expect(t, http.StatusBadRequest, code, http.MethodGet, connectionsPath+"?"+query, s.token("acme"), "")
	}
}
