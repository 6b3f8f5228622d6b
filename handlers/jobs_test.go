package handlers_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/handlers"
)

func TestCreateJob(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	s.create(t, "acme", describe(t, external(t), "orders", nil))
	post := func(status int, code, body string) answer {
		t.Helper()
		return s.expect(t, status, code, http.MethodPost, "/v1/fetcher", s.token("acme"), body)
	}
	const body = `{"metadata":{"source":" Ledger ","n":1.0},"dataRequest":{"mappedFields":{"orders":{"Order":["id","total"]}},` +
		`"filters":{"orders":{"Order":{"total":{"gt":["10.50"]}}}}}}`
	got := post(http.StatusAccepted, "", body)
	var made struct {
		JobID     uuid.UUID `json:"jobId"`
		Status    string
		CreatedAt time.Time
		Message   string
	}
	got.decode(t, &made)
	if made.Status != "pending" || made.Message == "" || time.Since(made.CreatedAt) > time.Minute {
		t.Errorf("got %s", got.body)
	}
	if location := got.header.Get("Location"); location != "/v1/fetcher/"+made.JobID.String() {
		t.Errorf("Location %q", location)
	}
	again := post(http.StatusOK, "", strings.Replace(body, "1.0", "1.00", 1))
	if !strings.Contains(again.body, made.JobID.String()) || again.header.Get("Location") != got.header.Get("Location") {
		t.Errorf("the duplicate is %s", again.body)
	}
	job := s.expect(t, http.StatusOK, "", http.MethodGet, "/v1/fetcher/"+made.JobID.String(), s.token("acme"), "")
	for _, part := range []string{
		`"metadata":{"source":" Ledger ","n":1.0}`, `"mappedFields":{"orders":{"Order":["id","total"]}}`,
		`"filters":{"orders":{"Order":{"total":{"gt":["10.50"]}}}}`, `"status":"pending"`,
	} {
		if !strings.Contains(job.body, part) {
			t.Errorf("%s is not in %s", part, job.body)
		}
	}

	request := func(mapped, metadata string) string {
		return fmt.Sprintf(`{"dataRequest":{"mappedFields":%s},"metadata":%s}`, mapped, metadata)
	}
	for name, tc := range map[string]struct {
		body, code, location string
		status               int
	}{
		"cut":                 {`{"metadata"`, "FET-0001", "body.metadata", 400},
		"wrong type":          {`{"dataRequest":[],"metadata":{}}`, "FET-0001", "body.dataRequest", 400},
		"wrong type deeper":   {request(`{"orders":{"Order":["id",1]}}`, `{"source":"ledger"}`), "FET-0001", "body.dataRequest.mappedFields.orders.Order[1]", 400},
		"null inside":         {request(`{"orders":{"Order":null}}`, `{"source":"ledger"}`), "FET-0001", "body.dataRequest.mappedFields.orders.Order", 400},
		"metadata is a list":  {request(`{"orders":{"Order":["*"]}}`, `[]`), "FET-0001", "body.metadata", 400},
		"nothing but strange": {`{"x":1}`, "FET-0402", "body.dataRequest", 400},
		"no metadata":         {`{"dataRequest":{"mappedFields":{"orders":{"Order":["*"]}}}}`, "FET-0402", "body.metadata", 400},
		"no source":           {request(`{"orders":{"Order":["*"]}}`, `{"x":1}`), "FET-0402", "body.metadata.source", 400},
		"empty":               {request(`{}`, `{"source":"ledger"}`), "FET-0401", "body.dataRequest.mappedFields", 400},
		"unknown datasource":  {request(`{"nope":{"Order":["*"]}}`, `{"source":"ledger"}`), "FET-1020", "body.dataRequest.mappedFields.nope", 400},
		"other product":       {request(`{"orders":{"Order":["*"]}}`, `{"source":"billing"}`), "FET-1016", "body.dataRequest.mappedFields.orders", 400},
		"unknown field":       {request(`{"orders":{"Order":["nope"]}}`, `{"source":"ledger"}`), "FET-1060", "body.mappedFields.orders.Order.nope", 422},
		"deep metadata":       {request(`{"orders":{"Order":["*"]}}`, `{"source":"ledger","a":{"b":{"c":{"d":{"e":{"f":1}}}}}}`), "FET-0410", "", 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := s.expect(t, tc.status, tc.code, http.MethodPost, "/v1/fetcher", s.token("acme"), tc.body).problem(t)
			if tc.location != "" && (len(p.Errors) == 0 || p.Errors[0].Location != tc.location) {
				t.Errorf("errors %+v, want the location %s", p.Errors, tc.location)
			}
		})
	}
}

func TestStrictBodies(t *testing.T) {
	t.Parallel()
	s := newService(t, func(o *handlers.Options) { o.StrictJSON = true })
	for name, tc := range map[string]struct{ path, body, location string }{
		"connection":     {connectionsPath, `{"configName":"x","Password":"y"}`, "body.Password"},
		"connection ssl": {connectionsPath, `{"ssl":{"mode":"disable","CA":"y"}}`, "body.ssl.CA"},
		"job":            {"/v1/fetcher", `{"metadata":{"source":"x","free":1},"extra":1}`, "body.extra"},
		"data request":   {"/v1/fetcher", `{"dataRequest":{"fields":{}}}`, "body.dataRequest.fields"},
		"job output":     {"/v1/fetcher", `{"output":{"format":"json","level":9}}`, "body.output.level"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := s.expect(t, 400, "FET-0400", http.MethodPost, tc.path, s.token("acme"), tc.body, "X-Product-Name", "p").problem(t)
			if len(p.Errors) != 1 || p.Errors[0].Location != tc.location {
				t.Errorf("errors %+v, want the location %s", p.Errors, tc.location)
			}
		})
	}
}
