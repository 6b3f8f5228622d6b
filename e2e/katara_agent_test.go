package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

// agent calls the operations on web documents of one process with one token, or without.
type agent struct {
	suite *kataraSuite
	base  string
	token string
}

// envelope is the body of an error, and all of it.
type envelope struct {
	Message        string  `json:"message"`
	Type           string  `json:"type"`
	Code           string  `json:"code"`
	Param          *string `json:"param"`
	RequestID      string  `json:"request_id"`
	UpstreamStatus *int    `json:"upstream_status"`
	Action         string  `json:"action"`
	OperationID    string  `json:"operation_id"`
	SnapshotRef    string  `json:"snapshot_ref"`
}

func (v envelope) param() string {
	if v.Param == nil {
		return ""
	}
	return *v.Param
}

// kataraCode is a row of the table of codes.
type kataraCode struct {
	status int
	family string
	action string
}

// kataraCodes is section 7 of the contract.
func kataraCodes() map[string]kataraCode {
	return map[string]kataraCode{
		"invalid_request":           {400, "validation", ""},
		"authentication_required":   {401, "authentication", "sign_in"},
		"human_session_required":    {403, "authentication", "sign_in"},
		"reauthentication_required": {401, "authentication", "reauthenticate"},
		"csrf_rejected":             {403, "authentication", "refresh"},
		"account_changed":           {409, "conflict", "refresh"},
		"permission_denied":         {403, "authorization", "request_access"},
		"route_not_found":           {404, "routing", ""},
		"method_not_allowed":        {405, "routing", ""},
		"not_found":                 {404, "resource", ""},
		"feature_unavailable":       {501, "availability", "support"},
		"unavailable":               {503, "availability", "retry"},
		"idempotency_key_reused":    {422, "idempotency", "review"},
		"idempotency_in_progress":   {409, "idempotency", "retry"},
		"url_not_approved":          {403, "policy", "request_access"},
		"destination_refused":       {403, "policy", "support"},
		"redirect_refused":          {422, "policy", "review"},
		"upstream_refused":          {422, "upstream", "review"},
		"content_too_large":         {422, "content", "review"},
		"unsupported_media_type":    {422, "content", "review"},
		"content_type_mismatch":     {422, "content", "review"},
		"content_invalid":           {422, "content", "review"},
		"upstream_unavailable":      {502, "upstream", "retry"},
		"upstream_incomplete":       {502, "upstream", "retry"},
		"upstream_timeout":          {504, "upstream", "retry"},
		"upstream_protocol_error":   {502, "upstream", "support"},
		"source_disconnected":       {409, "policy", "review"},
		"approval_changed":          {409, "policy", "review"},
		"approval_cannot_widen":     {409, "policy", "review"},
		"revision_conflict":         {409, "conflict", "refresh"},
		"object_id_in_use":          {409, "conflict", "review"},
		"sync_in_progress":          {409, "conflict", "retry"},
		"rate_limited":              {429, "limit", "retry"},
		"quota_exceeded":            {403, "limit", "support"},
		"outcome_unknown":           {503, "internal", "reconcile"},
		"internal":                  {500, "internal", "support"},
	}
}

// do does the request and checks what holds of every answer.
func (a agent) do(t *testing.T, r call) blackbox.Answer {
	t.Helper()
	got, err := a.send(t, r)
	if err != nil {
		t.Fatalf("%s %s: %v", r.method, r.path, err)
	}
	a.check(t, r, got)
	return got
}

// send does the request. It may be called from any goroutine.
func (a agent) send(t *testing.T, r call) (blackbox.Answer, error) {
	req, err := http.NewRequestWithContext(t.Context(), r.method, a.base+r.path, strings.NewReader(r.body))
	if err != nil {
		return blackbox.Answer{}, err
	}
	for i := 0; i+1 < len(r.headers); i += 2 {
		req.Header[r.headers[i]] = append(req.Header[r.headers[i]], r.headers[i+1])
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	if r.body != "" && req.Header["Content-Type"] == nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := apiHTTP.Do(req)
	if err != nil {
		return blackbox.Answer{}, err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	return blackbox.Answer{Status: resp.StatusCode, Header: resp.Header, Body: content}, err
}

// succeeds is do, and fails the test unless the status is the one wanted.
func (a agent) succeeds(t *testing.T, status int, r call) blackbox.Answer {
	t.Helper()
	got := a.do(t, r)
	if got.Status != status {
		t.Fatalf("%s %s %.300s\ngot %d, want %d: %s", r.method, r.path, r.body, got.Status, status, got.Body)
	}
	return got
}

// fails wants an error of the code, at its usual status, about that part of the request; empty: about none.
func (a agent) fails(t *testing.T, code, param string, r call) envelope {
	t.Helper()
	return a.failsWith(t, kataraCodes()[code].status, code, param, r)
}

// failsWith is fails for codes that have several statuses.
func (a agent) failsWith(t *testing.T, status int, code, param string, r call) envelope {
	t.Helper()
	got := a.do(t, r)
	v, _ := opened(got)
	if got.Status != status || v.Code != code || v.param() != param {
		t.Errorf("%s %s %v %.300s\ngot %d: %s\nwant %d %s about %q", r.method, r.path, r.headers, r.body, got.Status, got.Body, status, code, param)
	}
	return v
}

// opened reads an error's body, of which it knows every member.
func opened(got blackbox.Answer) (envelope, error) {
	var body struct {
		Error envelope `json:"error"`
	}
	dec := json.NewDecoder(bytes.NewReader(got.Body))
	dec.DisallowUnknownFields()
	return body.Error, dec.Decode(&body)
}

// check holds an answer against the rules for all of them and against our OpenAPI document.
func (a agent) check(t *testing.T, r call, got blackbox.Answer) {
	t.Helper()
	wrong := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s %s answered %d %.700s:\n%s", r.method, r.path, got.Status, got.Body, fmt.Sprintf(format, args...))
	}
	if !requestID.MatchString(got.Header.Get("X-Request-ID")) {
		wrong("X-Request-Id %q", got.Header.Get("X-Request-ID"))
	}
	if got.Header.Get("X-Content-Type-Options") != "nosniff" || got.Header.Get("Cache-Control") != "no-store" {
		wrong("headers %v", got.Header)
	}
	if strings.Contains(string(got.Body), `"$schema":`) {
		wrong("a $schema")
	}
	for _, secret := range a.suite.secrets {
		if strings.Contains(fmt.Sprint(string(got.Body), got.Header), secret) {
			wrong("the answer holds a secret")
		}
	}
	if got.Status >= http.StatusBadRequest && r.method != http.MethodHead {
		a.checkEnvelope(r, got, wrong)
	}
	if err := a.suite.matches(r, got); err != nil {
		wrong("not what the OpenAPI document says: %v", err)
	}
}

func (a agent) checkEnvelope(r call, got blackbox.Answer, wrong func(string, ...any)) {
	v, err := opened(got)
	if err != nil || got.Header.Get("Content-Type") != "application/json" {
		wrong("not an envelope: %v, Content-Type %q", err, got.Header.Get("Content-Type"))
		return
	}
	a.suite.mu.Lock()
	a.suite.codes[v.Code] = true
	a.suite.mu.Unlock()
	var body map[string]map[string]any
	if err := json.Unmarshal(got.Body, &body); err != nil || len(body) != 1 {
		wrong("more than an error: %v", err)
	}
	for _, name := range []string{"message", "type", "code", "param", "request_id", "upstream_status"} {
		if _, there := body["error"][name]; !there {
			wrong("no %s", name)
		}
	}
	row := kataraCodes()[v.Code]
	if v.Code == "permission_denied" && v.Action == "support" { // a suspended tenant's
		row.action = "support"
	}
	if diff := gocmp.Diff([]string{row.family, row.action, got.Header.Get("X-Request-ID")}, []string{v.Type, v.Action, v.RequestID}); diff != "" {
		wrong("type, action, request id (-want +got): %s", diff)
	}
	if got.Status != row.status && (v.Code != "invalid_request" || got.Status != 413 && got.Status != 415 && got.Status != 416) {
		wrong("the code's status is %d", row.status)
	}
	if v.Message == "" || utf8.RuneCountInString(v.Message) > 500 {
		wrong("message")
	}
	if found := driverSpeech.FindString(string(got.Body)); found != "" && !strings.Contains(r.path, found) {
		wrong("the answer quotes a library: %q", found)
	}
	for _, address := range []string{"127.0.0.1", "169.254", strconv.Itoa(a.suite.web.Port()), "example.com"} {
		if strings.Contains(v.Message, address) {
			wrong("the answer names an address")
		}
	}
	for _, id := range []string{v.OperationID, v.SnapshotRef} {
		if _, err := uuid.Parse(id); id != "" && err != nil {
			wrong("%q is no id", id)
		}
	}
	demands := map[int]string{401: "Www-Authenticate", 405: "Allow", 416: "Content-Range", 429: "Retry-After", 503: "Retry-After"}
	if name := demands[got.Status]; name != "" && got.Header.Get(name) == "" {
		wrong("no %s", name)
	}
	if after := got.Header.Get("Retry-After"); after != "" {
		if seconds, err := strconv.Atoi(after); err != nil || seconds < 1 {
			wrong("Retry-After %q", after)
		}
	}
}
