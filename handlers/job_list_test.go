package handlers_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/handlers"
	"github.com/fetcherhq/fetcher/store"
)

// jobList is a page of jobs, by id.
func (a answer) jobList(t *testing.T) (ids []string, total int) {
	t.Helper()
	var page struct {
		Items []struct {
			ID string `json:"id"`
		} `json:"items"`
		Total int `json:"total"`
	}
	must(t, json.Unmarshal([]byte(a.body), &page))
	if page.Items == nil {
		t.Errorf("items are null: %s", a.body)
	}
	for _, item := range page.Items {
		ids = append(ids, item.ID)
	}
	return ids, page.Total
}

func TestListJobs(t *testing.T) {
	t.Parallel()
	s := newService(t, func(o *handlers.Options) {
		o.Clock = func() time.Time { return time.Date(2024, 5, 15, 12, 0, 0, 0, time.UTC) }
	})
	db := s.lease(t, "acme").DB(t.Context())
	ids := map[string]string{}
	for _, row := range []struct{ name, created, set string }{
		{"completed", "2024-05-14 00:00", "status = 'completed', completed_at = now(), result_path = 'p', result_sha256 = 's'"},
		{"failed", "2024-05-15 11:00", "status = 'failed', completed_at = now(), error_code = 'FET-1025', error_message = 'm'"},
		{"running", "2024-05-16 00:00", "status = 'processing'"},
		{"pending", "2024-05-10 00:00", "source = 'billing'"},
		{"old", "2024-04-15 23:59", "source = 'billing'"},
		{"young", "2024-05-16 00:00:01", "source = 'billing'"},
	} {
		job := s.addJob(t, "acme", `{"source":"Ledger","n":1.0}`)
		must(t, db.Exec("UPDATE jobs SET created_at = '"+row.created+"+00', "+row.set+" WHERE id = ?", job.ID).Error)
		ids[row.name] = job.ID.String()
	}
	s.addJob(t, "globex", `{"source":"Ledger"}`)
	for name, tc := range map[string]struct {
		query   string
		headers []string
		want    string // names, by blanks
		total   int
	}{
		"the last month":       {"", nil, "running failed completed pending", 4},
		"ascending":            {"?sortOrder=Asc", nil, "pending completed failed running", 4},
		"a page":               {"?limit=2&page=2", nil, "completed pending", 4},
		"beyond":               {"?limit=2&page=3", nil, "", 4},
		"pending":              {"?status=pending", nil, "pending", 1},
		"processing":           {"?status=processing", nil, "running", 1},
		"completed":            {"?status=completed", nil, "completed", 1},
		"failed":               {"?status=failed", nil, "failed", 1},
		"last status":          {"?status=nope&status=failed", nil, "failed", 1},
		"empty status":         {"?status=", nil, "running failed completed pending", 4},
		"product":              {"", []string{"X-Product-Name", " BILLING "}, "pending", 1},
		"product and status":   {"?status=failed", []string{"X-Product-Name", "ledger"}, "failed", 1},
		"other product":        {"", []string{"X-Product-Name", "nope"}, "", 0},
		"start":                {"?startDate=2024-05-10", nil, "pending", 1},
		"both":                 {"?startDate=2024-05-14&endDate=2024-05-16", nil, "running failed completed", 3},
		"end":                  {"?endDate=2024-05-10", nil, "pending old", 2},
		"unknown is ignored":   {"?metadata.n=2&type=x", nil, "running failed completed pending", 4},
		"a day without a time": {"?startDate=2024-05-16", nil, "young running", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := s.expect(t, http.StatusOK, "", http.MethodGet, "/v1/fetcher"+tc.query, s.token("acme"), "", tc.headers...)
			var want []string
			for name := range strings.FieldsSeq(tc.want) {
				want = append(want, ids[name])
			}
			items, total := got.jobList(t)
			if diff := cmp.Diff(want, items); diff != "" || total != tc.total {
				t.Errorf("total %d, want %d; (-want +got):\n%s", total, tc.total, diff)
			}
		})
	}
	one := s.expect(t, http.StatusOK, "", http.MethodGet, "/v1/fetcher/"+ids["failed"], s.token("acme"), "")
	list := s.expect(t, http.StatusOK, "", http.MethodGet, "/v1/fetcher?status=failed", s.token("acme"), "")
	want := `{"items":[` + strings.TrimSpace(one.body) + `],"page":1,"limit":10,"total":1}` + "\n"
	if diff := cmp.Diff(want, list.body); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for query, tc := range map[string]struct {
		code, location string
		headers        []string
	}{
		"?status=done":           {"FET-0405", "query.status", nil},
		"?status=FAILED":         {"FET-0405", "query.status", nil},
		"?status=failed,pending": {"FET-0405", "query.status", nil},
		"?page=0":                {"FET-0405", "query.page", nil},
		"?limit=101":             {"FET-0406", "query.limit", nil},
		"?sortOrder=up":          {"FET-0407", "query.sortOrder", nil},
		"?startDate=x":           {"FET-0408", "query.startDate", nil},
		"?startDate=2024-05-02&endDate=2024-05-01": {"FET-0409", "query.startDate", nil},
		"?$where=1":                                   {"FET-0405", "query.$where", nil},
		"?" + strings.Repeat("k", 65) + "=1":          {"FET-0405", "query." + strings.Repeat("k", 65), nil},
		"?x=" + strings.Repeat("v", 257):              {"FET-0405", "query.x", nil},
		"?status=%zz":                                 {"FET-0405", "query", nil},
		"?ignored=1":                                  {"FET-0403", "header.X-Product-Name", []string{"X-Product-Name", " "}},
		"?status=header-before-query":                 {"FET-0403", "header.X-Product-Name", []string{"X-Product-Name", "a b"}},
		"?two=lines":                                  {"FET-0403", "header.X-Product-Name", []string{"X-Product-Name", "a", "X-Product-Name", "a"}},
		"?page=1&limit=5&status=unknown&endDate=2024": {"FET-0408", "query.endDate", nil},
	} {
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			p := s.expect(t, 400, tc.code, http.MethodGet, "/v1/fetcher"+query, s.token("acme"), "", tc.headers...).problem(t)
			if len(p.Errors) != 1 || p.Errors[0].Location != tc.location {
				t.Errorf("errors %+v, want the location %s", p.Errors, tc.location)
			}
		})
	}
}

func TestCancelJob(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	rows := store.NewJobs(s.lease(t, "acme").DB(t.Context()))
	cancel := func(status int, code, id string) answer {
		t.Helper()
		return s.expect(t, status, code, http.MethodPost, "/v1/fetcher/"+id+"/cancel", s.token("acme"), "")
	}
	job := s.addJob(t, "acme", `{"source":"ledger","n":1.10}`)
	id := job.ID.String()
	got := cancel(http.StatusAccepted, "", id)
	for _, part := range []string{
		`{"id":"` + id + `","status":"failed","metadata":{"source":"ledger","n":1.10,"error":"the job was canceled"}`,
		`"attempt":0,"error":{"code":"FET-1025","message":"the job was canceled"}}`,
	} {
		if !strings.Contains(got.body, part) {
			t.Errorf("%s is not in %s", part, got.body)
		}
	}
	if read := s.expect(t, http.StatusOK, "", http.MethodGet, "/v1/fetcher/"+id, s.token("acme"), ""); read.body != got.body {
		t.Errorf("read %s, answered %s", read.body, got.body)
	}
	events := s.expect(t, http.StatusOK, "", http.MethodGet, "/v1/fetcher/"+id+"/events", s.token("acme"), "")
	if !strings.Contains(events.body, `"type":"fetcher.job.failed"`) || !strings.Contains(events.body, `"error":{"code":"FET-1025","message":"the job was canceled"}`) {
		t.Errorf("events %s", events.body)
	}
	cancel(http.StatusConflict, "FET-1022", id)

	running := s.addJob(t, "acme", `{"source":"ledger"}`)
	claimed, err := rows.Claim(t.Context(), running.ID, time.Now(), 5)
	must(t, err)
	first := cancel(http.StatusAccepted, "", running.ID.String())
	second := cancel(http.StatusAccepted, "", running.ID.String())
	if !strings.Contains(first.body, `"status":"processing"`) || first.body != second.body {
		t.Errorf("first %s, then %s", first.body, second.body)
	}
	must(t, rows.Fail(t.Context(), running.ID, claimed.Attempt, store.Failure{Code: "FET-1025", Message: "m"},
		store.Event{ID: "e", Type: "fetcher.job.failed", Time: time.Now(), Data: []byte(`{}`)}))
	cancel(http.StatusConflict, "FET-1022", running.ID.String())

	completed := s.complete(t, "acme", []byte("{}"), time.Now().Add(time.Hour))
	cancel(http.StatusConflict, "FET-1022", completed.ID.String())
	s.expect(t, http.StatusOK, "", http.MethodGet, "/v1/fetcher/"+completed.ID.String()+"/result", s.token("acme"), "")
	cancel(http.StatusNotFound, "FET-1001", uuid.NewString())
	cancel(http.StatusBadRequest, "FET-0404", "x")
	theirs := s.addJob(t, "globex", `{"source":"ledger"}`)
	cancel(http.StatusNotFound, "FET-1001", theirs.ID.String())
	if read := s.expect(t, http.StatusOK, "", http.MethodGet, "/v1/fetcher/"+theirs.ID.String(), s.token("globex"), ""); !strings.Contains(read.body, `"status":"pending"`) {
		t.Errorf("another tenant's job is %s", read.body)
	}
}

func TestValidateSchema(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	d := external(t)
	s.create(t, "acme", describe(t, d, "orders", nil))
	s.create(t, "acme", describe(t, d, "down", map[string]any{"port": 1}))
	s.create(t, "globex", describe(t, d, "theirs", nil))
	post := func(t *testing.T, status int, code, body string, headers ...string) answer {
		t.Helper()
		return s.expect(t, status, code, http.MethodPost, connectionsPath+"/validate-schema", s.token("acme"), body, headers...)
	}
	// The product is ignored, whatever its header says.
	got := post(t, http.StatusOK, "", `{"mappedFields":{"orders":{"Order":["id","TOTAL"],"public.big":["*"],"sales.region":["code"]}}}`, "X-Product-Name", " ")
	if diff := cmp.Diff(`{"status":"success","message":"the mapped fields fit the schema"}`+"\n", got.body); diff != "" {
		t.Error(diff)
	}
	got = post(t, http.StatusUnprocessableEntity, "FET-1060",
		`{"mappedFields":{"orders":{"Order":["id","nope"],"region":["code"]},"theirs":{"Order":["id"]},"down":{"Order":["*"]}}}`)
	const want = `"errors":[` +
		`{"location":"body.mappedFields.down","message":"DATA_SOURCE_DOWN","value":{"dataSourceId":"down"}},` +
		`{"location":"body.mappedFields.orders.Order.nope","message":"FIELD_NOT_FOUND","value":{"dataSourceId":"orders","field":"nope","table":"Order"}},` +
		`{"location":"body.mappedFields.orders.region","message":"TABLE_NOT_FOUND","value":{"dataSourceId":"orders","table":"region"}},` +
		`{"location":"body.mappedFields.theirs","message":"DATA_SOURCE_NOT_FOUND","value":{"dataSourceId":"theirs"}}]`
	if !strings.Contains(got.body, want) {
		t.Errorf("got %s", got.body)
	}
	tables := make([]string, 0, 21)
	for i := range 21 {
		tables = append(tables, fmt.Sprintf(`"t%d":["*"]`, i))
	}
	for name, tc := range map[string]struct {
		body, code, location string
		status               int
	}{
		"empty body":     {``, "FET-0001", "body", 400},
		"no member":      {`{}`, "FET-0001", "body", 400},
		"other member":   {`{"mappedfields":{}}`, "FET-0402", "body.mappedFields", 400},
		"null":           {`{"mappedFields":null}`, "FET-0402", "body.mappedFields", 400},
		"wrong type":     {`{"mappedFields":{"orders":["Order"]}}`, "FET-0001", "body.mappedFields.orders", 400},
		"empty":          {`{"mappedFields":{}}`, "FET-0401", "body.mappedFields", 400},
		"blank field":    {`{"mappedFields":{"orders":{"Order":[" "]}}}`, "FET-0401", "body.mappedFields.orders.Order[0]", 400},
		"too many":       {`{"mappedFields":{"orders":{` + strings.Join(tables, ",") + `}}}`, "FET-1061", "body.mappedFields.orders", 400},
		"nothing exists": {`{"mappedFields":{"theirs":{"Order":["*"]},"nope":{"t":["*"]}}}`, "FET-1062", "", 404},
		"duplicate":      {`{"mappedFields":{"orders":{"a":["*"]},"orders":{"b":["*"]}}}`, "FET-0001", "body.mappedFields.orders", 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := post(t, tc.status, tc.code, tc.body).problem(t)
			if tc.location == "" && len(p.Errors) > 0 || tc.location != "" && (len(p.Errors) != 1 || p.Errors[0].Location != tc.location) {
				t.Errorf("errors %+v, want the location %q", p.Errors, tc.location)
			}
		})
	}
}
