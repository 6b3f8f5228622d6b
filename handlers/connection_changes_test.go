package handlers_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/handlers"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/testkit"
)

// somewhere is a database that nobody connects to.
func somewhere() testkit.Database {
	return testkit.Database{Host: "db.example.com", Port: 5432, Name: "sales", Owner: "reader", Password: "canary-secret"}
}

// unassigned stores a connection without a product, as an import would.
func (s *service) unassigned(t *testing.T, tenantID, name, created string) string {
	t.Helper()
	at := time.Now().UTC()
	if created != "" {
		var err error
		at, err = time.Parse(time.RFC3339, created)
		must(t, err)
	}
	c := &store.Connection{
		ID: uuid.Must(uuid.NewV7()), ConfigName: name, Kind: "MYSQL", Host: "db", Port: 1, DatabaseName: "d", UserName: "u",
		PasswordSealed: []byte("x"), KeyVersion: 1, CreatedAt: at, UpdatedAt: at,
	}
	must(t, store.NewConnections(s.lease(t, tenantID).DB(t.Context())).Create(t.Context(), c))
	return c.ID.String()
}

// openJob stores a pending job that reads the datasource.
func (s *service) openJob(t *testing.T, tenantID, datasource string) {
	t.Helper()
	execAs(t, s.dsn[tenantID], fmt.Sprintf(`INSERT INTO jobs (id, request_hash, metadata, mapped_fields, source, datasources)
		VALUES (gen_random_uuid(), 'h', '{}', '{}', 's', '{%s}')`, datasource))
}

// members decodes an object into the texts of its members.
func members(t *testing.T, text string) map[string]string {
	t.Helper()
	raw := map[string]json.RawMessage{}
	must(t, json.Unmarshal([]byte(text), &raw))
	out := map[string]string{}
	for name, value := range raw {
		out[name] = string(value)
	}
	return out
}

func TestUpdateConnection(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	for i, tc := range []struct {
		patch   string
		changes map[string]string // of the answer; an empty text: the member goes
	}{
		{`{"host":" other.example.com ","port":6432}`, map[string]string{"host": `"other.example.com"`, "port": "6432"}},
		{`{"configName":"renamed"}`, map[string]string{"configName": `"renamed"`}},
		{`{"databaseName":"d","userName":"u","password":"p"}`, map[string]string{"databaseName": `"d"`, "userName": `"u"`}},
		{`{"schema":"s2"}`, map[string]string{"schema": `"s2"`}},
		{`{"schema":null}`, map[string]string{"schema": ""}},
		{`{"ssl":null}`, map[string]string{"ssl": ""}},
		{`{"ssl":{}}`, nil},
		{`{"ssl":{"mode":"require","ca":null}}`, map[string]string{"ssl": `{"mode":"require"}`}},
		{`{"ssl":{"mode":null}}`, map[string]string{"ssl": ""}},
		{`{"type":"MYSQL","ssl":{"mode":"preferred"}}`, map[string]string{"type": `"MYSQL"`, "ssl": `{"mode":"preferred"}`}},
		{`{"metadata":null}`, map[string]string{"metadata": ""}},
		{`{"metadata":{}}`, nil},
		{`{"metadata":{"a":{"x":null,"y":2.50},"new":["\u00e9",null]}}`, map[string]string{"metadata": `{"z":1.10,"a":{"big":12345678901234567890,"y":2.50},"new":["\u00e9",null]}`}},
		{`{"schema":"s2","unknown":1,"id":"x","productName":"other"}`, map[string]string{"schema": `"s2"`}},
	} {
		id, created := s.create(t, "acme", strings.Replace(describe(t, somewhere(), fmt.Sprintf("conn-%d", i),
			map[string]any{"schema": "sales", "metadata": "M"}), `"M"`, `{"z":1.10,"a":{"x":1,"big":12345678901234567890}}`, 1))
		got := s.expect(t, http.StatusOK, "", http.MethodPatch, connectionsPath+"/"+strings.ToUpper(id), s.token("acme"), tc.patch,
			"X-Product-Name", "!") // not read here
		want, answer := members(t, created.body), members(t, got.body)
		for name, value := range tc.changes {
			want[name] = value
			if value == "" {
				delete(want, name)
			}
		}
		if answer["updatedAt"] == want["updatedAt"] {
			t.Errorf("%s: updatedAt is still %s", tc.patch, answer["updatedAt"])
		}
		want["updatedAt"] = answer["updatedAt"]
		if diff := cmp.Diff(want, answer); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.patch, diff)
		}
		if tag := got.header.Get("ETag"); tag != `"2"` {
			t.Errorf("%s: ETag %s", tc.patch, tag)
		}
		read := s.expect(t, http.StatusOK, "", http.MethodGet, connectionsPath+"/"+id, s.token("acme"), "")
		if read.body != got.body || read.header.Get("ETag") != got.header.Get("ETag") {
			t.Errorf("%s: read %s", tc.patch, read.body)
		}
	}
	if strings.Contains(s.logs.String(), "canary-secret") {
		t.Error("the log tells the password")
	}
}

func TestUpdateConnectionRefuses(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	id, created := s.create(t, "acme", describe(t, somewhere(), "orders", map[string]any{"metadata": map[string]any{"a": 1}}))
	s.create(t, "acme", describe(t, somewhere(), "taken", nil))
	busy, _ := s.create(t, "acme", describe(t, somewhere(), "busy", nil))
	s.openJob(t, "acme", "busy")
	unknown := uuid.NewString()
	for name, tc := range map[string]struct {
		id, patch, match string
		status           int
		code, location   string
	}{
		"id form":               {"x", `{`, "", 400, "FET-0404", "path.id"},
		"absent body":           {unknown, "", "", 400, "FET-0001", "body"},
		"empty object":          {unknown, `{}`, "", 400, "FET-0001", "body"},
		"no known member":       {unknown, `{"x":1,"Port":2}`, "", 400, "FET-0001", "body"},
		"cut":                   {unknown, `{"host":`, "", 400, "FET-0001", "body.host"},
		"twice":                 {unknown, `{"host":"a","host":"b"}`, "", 400, "FET-0001", "body.host"},
		"a list":                {unknown, `[{"host":"a"}]`, "", 400, "FET-0001", "body"},
		"wrong type":            {unknown, `{"host":1}`, "", 400, "FET-0001", "body.host"},
		"wrong number":          {unknown, `{"port":1.5}`, "", 400, "FET-0001", "body.port"},
		"wrong type of ssl":     {unknown, `{"ssl":[]}`, "", 400, "FET-0001", "body.ssl"},
		"wrong type in ssl":     {unknown, `{"ssl":{"mode":"x","ca":{}}}`, "", 400, "FET-0001", "body.ssl.ca"},
		"wrong type of meta":    {unknown, `{"metadata":"x"}`, "", 400, "FET-0001", "body.metadata"},
		"unknown":               {unknown, `{"port":0}`, `"9"`, 404, "FET-1001", ""},
		"busy":                  {busy, `{"port":0}`, `"9"`, 409, "FET-1021", ""},
		"match":                 {id, `{"host":"169.254.169.254"}`, `"9"`, 412, "FET-1090", "header.If-Match"},
		"weak match":            {id, `{"port":1}`, `W/"1"`, 412, "FET-1090", "header.If-Match"},
		"match of no form":      {id, `{"port":1}`, `1`, 412, "FET-1090", "header.If-Match"},
		"host":                  {id, `{"host":"169.254.169.254","password":null}`, `"1"`, 400, "FET-0414", "body.host"},
		"missing":               {id, `{"password":null,"port":0}`, `*`, 400, "FET-0402", "body.password"},
		"blank":                 {id, `{"userName":"  "}`, `"8", "1"`, 400, "FET-0402", "body.userName"},
		"format":                {id, `{"port":0,"configName":"taken"}`, "", 400, "FET-0001", "body.port"},
		"mode of another type":  {id, `{"type":"MYSQL"}`, "", 400, "FET-0413", "body.ssl.mode"},
		"ssl without mode":      {id, `{"ssl":{"mode":null,"ca":"x"}}`, "", 400, "FET-0402", "body.ssl.mode"},
		"bad pem":               {id, `{"ssl":{"ca":"x"}}`, "", 400, "FET-0001", "body.ssl.ca"},
		"key without cert":      {id, `{"ssl":{"key":"x"}}`, "", 400, "FET-0402", "body.ssl.cert"},
		"deep together":         {id, `{"metadata":{"b":{"c":{"d":{"e":{"f":[]}}}}}}`, "", 400, "FET-0410", ""},
		"name of another":       {id, `{"configName":"taken"}`, "", 409, "FET-1002", "body.configName"},
		"of another tenant":     {id, `{"port":1}`, "", 404, "FET-1001", ""},
		"other types of a body": {id, `{"configName":null}`, "", 400, "FET-0402", "body.configName"},
	} {
		tenantID := "acme"
		if name == "of another tenant" {
			tenantID = "globex"
		}
		var headers []string
		if tc.match != "" {
			headers = []string{"If-Match", tc.match}
		}
		got := s.do(t, http.MethodPatch, connectionsPath+"/"+tc.id, s.token(tenantID), tc.patch, headers...)
		p := got.problem(t)
		if got.status != tc.status || p.Code != tc.code {
			t.Errorf("%s: status %d, want %d %s: %s", name, got.status, tc.status, tc.code, got.body)
		}
		if tc.location != "" && (len(p.Errors) == 0 || p.Errors[0].Location != tc.location) {
			t.Errorf("%s: errors %+v, want the location %s", name, p.Errors, tc.location)
		}
		if strings.Contains(got.body, "169.254") {
			t.Errorf("%s: the answer tells the address: %s", name, got.body)
		}
	}
	if read := s.do(t, http.MethodGet, connectionsPath+"/"+id, s.token("acme"), ""); read.body != created.body {
		t.Errorf("something was stored: %s", read.body)
	}
}

func TestStrictPatch(t *testing.T) {
	t.Parallel()
	s := newService(t, func(o *handlers.Options) { o.StrictJSON = true })
	for patch, location := range map[string]string{
		`{"x":1}`: "body.x", `{"host":"a","ssl":{"mode":"disable","CA":null}}`: "body.ssl.CA", `{"metadata":{"free":1},"y":2}`: "body.y",
	} {
		p := s.expect(t, 400, "FET-0400", http.MethodPatch, connectionsPath+"/"+uuid.NewString(), s.token("acme"), patch).problem(t)
		if len(p.Errors) != 1 || p.Errors[0].Location != location {
			t.Errorf("%s: errors %+v", patch, p.Errors)
		}
	}
}

// TestLostUpdate holds that of two that read the same state only one changes it.
func TestLostUpdate(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	id, created := s.create(t, "acme", describe(t, somewhere(), "orders", nil))
	statuses := [2]int{}
	var wg sync.WaitGroup
	for i := range statuses {
		wg.Go(func() {
			statuses[i] = s.do(t, http.MethodPatch, connectionsPath+"/"+id, s.token("acme"), fmt.Sprintf(`{"port":%d}`, i+1),
				"If-Match", created.header.Get("ETag")).status
		})
	}
	wg.Wait()
	if statuses != [2]int{200, 412} && statuses != [2]int{412, 200} {
		t.Errorf("statuses %v", statuses)
	}
}

func TestDeleteConnection(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	body := describe(t, somewhere(), "orders", nil)
	id, _ := s.create(t, "acme", body)
	busy, _ := s.create(t, "acme", describe(t, somewhere(), "busy", nil))
	s.openJob(t, "acme", "busy")
	path := connectionsPath + "/" + id
	s.expect(t, 400, "FET-0404", http.MethodDelete, connectionsPath+"/x", s.token("acme"), "")
	s.expect(t, 404, "FET-1001", http.MethodDelete, path, s.token("globex"), "")
	s.expect(t, 409, "FET-1021", http.MethodDelete, connectionsPath+"/"+busy, s.token("acme"), "", "If-Match", `"9"`)
	s.expect(t, 412, "FET-1090", http.MethodDelete, path, s.token("acme"), "", "If-Match", `"9"`)
	got := s.expect(t, 204, "", http.MethodDelete, path, s.token("acme"), "", "If-Match", `"1"`)
	if got.body != "" || got.header.Get("Content-Type") != "" {
		t.Errorf("204 with %q %q", got.header.Get("Content-Type"), got.body)
	}
	for _, method := range []string{http.MethodDelete, http.MethodGet} {
		s.expect(t, 404, "FET-1001", method, path, s.token("acme"), "")
	}
	s.expect(t, 404, "FET-1001", http.MethodPatch, path, s.token("acme"), `{"port":1}`)
	s.expect(t, 404, "FET-1001", http.MethodPost, path+"/assign", s.token("acme"), "", "X-Product-Name", "p")
	s.expect(t, 404, "FET-1001", http.MethodPost, path+"/test", s.token("acme"), "")
	s.create(t, "acme", body) // the name is free again
}

func TestAssignConnection(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	id := s.unassigned(t, "acme", "orders", "")
	path := connectionsPath + "/" + id + "/assign"
	s.expect(t, 400, "FET-0404", http.MethodPost, connectionsPath+"/x/assign", s.token("acme"), "")
	for _, headers := range [][]string{nil, {"X-Product-Name", ""}, {"X-Product-Name", "  "}, {"X-Product-Name", "a b"}, {"X-Product-Name", "a", "X-Product-Name", "a"}} {
		s.expect(t, 400, "FET-0403", http.MethodPost, connectionsPath+"/"+uuid.NewString()+"/assign", s.token("acme"), "", headers...)
	}
	s.expect(t, 404, "FET-1001", http.MethodPost, path, s.token("globex"), "", "X-Product-Name", "p")
	got := s.expect(t, 200, "", http.MethodPost, path, s.token("acme"), "", "X-Product-Name", " Ledger ")
	if m := members(t, got.body); m["productName"] != `"ledger"` || m["id"] != strconv.Quote(id) || got.header.Get("ETag") != `"2"` {
		t.Errorf("ETag %s, %s", got.header.Get("ETag"), got.body)
	}
	if read := s.do(t, http.MethodGet, connectionsPath+"/"+id, s.token("acme"), ""); read.body != got.body {
		t.Errorf("read %s", read.body)
	}
	for _, product := range []string{"ledger", "other"} {
		s.expect(t, 409, "FET-1015", http.MethodPost, path, s.token("acme"), "", "X-Product-Name", product)
	}
	raced := s.unassigned(t, "acme", "raced", "")
	var won atomic.Int32
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			a := s.do(t, http.MethodPost, connectionsPath+"/"+raced+"/assign", s.token("acme"), "", "X-Product-Name", fmt.Sprint("p", i))
			switch a.status {
			case http.StatusOK:
				won.Add(1)
			case http.StatusConflict:
			default:
				t.Errorf("status %d: %s", a.status, a.body)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d won the race", won.Load())
	}
}

func TestListUnassigned(t *testing.T) {
	t.Parallel()
	now := time.Date(2024, 3, 30, 15, 0, 0, 0, time.UTC)
	s := newService(t, func(o *handlers.Options) { o.Clock = func() time.Time { return now } })
	s.unassigned(t, "acme", "before", "2024-02-28T23:59:59Z")
	s.unassigned(t, "acme", "first", "2024-02-29T00:00:00Z")
	s.unassigned(t, "acme", "second", "2024-03-10T00:00:00Z")
	s.unassigned(t, "acme", "last", "2024-03-31T00:00:00Z")
	s.unassigned(t, "globex", "theirs", "2024-03-10T00:00:00Z")
	owned := s.unassigned(t, "acme", "owned", "2024-03-11T00:00:00Z")
	s.expect(t, 200, "", http.MethodPost, connectionsPath+"/"+owned+"/assign", s.token("acme"), "", "X-Product-Name", "p")
	gone := s.unassigned(t, "acme", "gone", "2024-03-11T00:00:00Z")
	s.expect(t, 204, "", http.MethodDelete, connectionsPath+"/"+gone, s.token("acme"), "")
	path := connectionsPath + "/unassigned"
	for query, want := range map[string]string{
		"":                         "last second first 3",
		"type=oracle&metadata.a=b": "last second first 3", // only the window, sort and page apply
		"sortOrder=ASC&limit=2":    "first second 3",
		"limit=2&page=2":           "first 3",
		"page=9":                   " 3",
		"startDate=2024-03-01&endDate=2024-03-10": "second 1",
		"endDate=2024-02-29":                      "first before 2",
	} {
		got := s.expect(t, 200, "", http.MethodGet, path+"?"+query, s.token("acme"), "", "X-Product-Name", "!") // not read here
		var page struct {
			Items              []struct{ ConfigName string }
			Total, Page, Limit int
		}
		got.decode(t, &page)
		names := make([]string, 0, len(page.Items))
		for _, item := range page.Items {
			names = append(names, item.ConfigName)
		}
		if diff := cmp.Diff(want, fmt.Sprintf("%s %d", strings.Join(names, " "), page.Total)); diff != "" || page.Items == nil {
			t.Errorf("%s: %s", query, diff)
		}
	}
	for query, code := range map[string]string{
		"page=0": "FET-0405", "limit=101": "FET-0406", "sortOrder=x": "FET-0407", "startDate=x": "FET-0408",
		"startDate=2024-02-02&endDate=2024-02-01": "FET-0409", "$where=1": "FET-0405", "_x=1": "FET-0405",
	} {
		s.expect(t, 400, code, http.MethodGet, path+"?"+query, s.token("acme"), "")
	}
}

func TestConnectionTestsAreLimited(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	// The host is one that is never allowed: the limit comes before that check.
	barred := describe(t, somewhere(), "orders", nil)
	id, _ := s.create(t, "acme", barred)
	other, _ := s.create(t, "acme", strings.Replace(barred, "orders", "others", 1))
	theirs, _ := s.create(t, "globex", barred)
	for _, tenantID := range []string{"acme", "globex"} {
		execAs(t, s.dsn[tenantID], `UPDATE connections SET host = '169.254.169.254'`)
	}
	test := func(status int, code, tenantID, id string) answer {
		t.Helper()
		return s.expect(t, status, code, http.MethodPost, connectionsPath+"/"+id+"/test", s.token(tenantID), "")
	}
	for range 10 {
		test(400, "FET-0414", "acme", id)
	}
	got := test(429, "FET-0008", "acme", id)
	if after, err := strconv.Atoi(got.header.Get("Retry-After")); err != nil || after < 1 || after > 60 {
		t.Errorf("Retry-After %q", got.header.Get("Retry-After"))
	}
	test(400, "FET-0414", "acme", other)
	test(400, "FET-0414", "globex", theirs)
	test(404, "FET-1001", "acme", uuid.NewString())
	execAs(t, s.dsn["acme"], `UPDATE connection_tests SET taken = ARRAY(SELECT x - interval '1 minute' FROM unnest(taken) x)`)
	test(400, "FET-0414", "acme", id)
}
