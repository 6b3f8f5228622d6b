package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3filter"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

// caller calls one process with one token.
type caller struct {
	suite *apiSuite
	base  string
	token string

	problems string // PROBLEM_BASE_URI of the process, if not the default
}

// call is a request; headers alternate names and values, and a name may come twice. Without a Content-Type of its own
// a body is JSON.
type call struct {
	method, path string
	body         string
	headers      []string
	lenient      bool // more than the document promises to take
}

func get(path string, headers ...string) call {
	return call{method: http.MethodGet, path: path, headers: headers}
}

func post(path, body string, headers ...string) call {
	return call{method: http.MethodPost, path: path, body: body, headers: headers}
}

// fault is the body of an error, and all of it.
type fault struct {
	Type     string       `json:"type"`
	Title    string       `json:"title"`
	Status   int          `json:"status"`
	Detail   string       `json:"detail"`
	Instance string       `json:"instance"`
	Code     string       `json:"code"`
	Errors   []faultyPart `json:"errors,omitempty"`
}

type faultyPart struct {
	Location string `json:"location"`
	Message  string `json:"message"`
	Value    any    `json:"value,omitempty"`
}

func (f fault) locations() []string {
	var out []string
	for _, part := range f.Errors {
		out = append(out, part.Location)
	}
	return out
}

var apiHTTP = &http.Client{
	Transport:     &http.Transport{MaxIdleConnsPerHost: 256},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// do does the request and checks what holds of every answer.
func (c caller) do(t *testing.T, r call) blackbox.Answer {
	t.Helper()
	var body io.Reader
	if r.body != "" {
		body = strings.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(t.Context(), r.method, c.base+r.path, body)
	if err != nil {
		t.Fatal(err)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	for i := 0; i+1 < len(r.headers); i += 2 {
		req.Header.Add(r.headers[i], r.headers[i+1])
	}
	if _, given := req.Header["Content-Type"]; r.body != "" && !given {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := apiHTTP.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", r.method, r.path, err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", r.method, r.path, err)
	}
	got := blackbox.Answer{Status: resp.StatusCode, Header: resp.Header, Body: content}
	c.check(t, r, got)
	return got
}

// succeeds does the request and fails the test unless the status is the one wanted.
func (c caller) succeeds(t *testing.T, status int, r call) blackbox.Answer {
	t.Helper()
	got := c.do(t, r)
	if got.Status != status {
		t.Fatalf("%s %s %.300s\ngot  %d: %s\nwant %d", r.method, r.path, r.body, got.Status, got.Body, status)
	}
	return got
}

// fails does the request, which must be refused with that code at exactly those locations.
func (c caller) fails(t *testing.T, code string, r call, locations ...string) fault {
	t.Helper()
	got := c.do(t, r)
	var f fault
	if got.Status < http.StatusBadRequest {
		t.Errorf("%s %s %.300s\ngot %d: %s\nwant %s", r.method, r.path, r.body, got.Status, got.Body, code)
		return f
	}
	if r.method != http.MethodHead {
		got.Decode(t, &f)
	}
	if f.Code != code || got.Status != published()[code] {
		t.Errorf("%s %s %.300s\ngot  %d: %s\nwant %d %s", r.method, r.path, r.body, got.Status, got.Body, published()[code], code)
	} else if diff := gocmp.Diff(locations, f.locations()); diff != "" {
		t.Errorf("%s %s %.300s\n%s: locations (-want +got): %s", r.method, r.path, r.body, got.Body, diff)
	}
	return f
}

// placed are the codes of faults that always have a place in the request.
var placed = map[string]bool{
	"FET-0001": true, "FET-0400": true, "FET-0401": true, "FET-0402": true, "FET-0403": true, "FET-0404": true, "FET-0406": true,
	"FET-0407": true, "FET-0408": true, "FET-0410": true, "FET-0411": true, "FET-0412": true, "FET-0413": true, "FET-1060": true,
}

var (
	requestID    = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)
	location     = regexp.MustCompile(`^(body|query|header|path)(\.|\[|$)`)
	driverSpeech = regexp.MustCompile(`(?i)sqlstate|pgx|pq:|dial tcp|lookup |connection refused|goroutine|\.go:\d|gorm|no such host|server error|json: |Go value`)
)

// check holds an answer against the rules for all of them and against our OpenAPI document.
func (c caller) check(t *testing.T, r call, got blackbox.Answer) {
	t.Helper()
	s := c.suite
	wrong := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s %s answered %d %.500s:\n%s", r.method, r.path, got.Status, got.Body, fmt.Sprintf(format, args...))
	}
	if !requestID.MatchString(got.Header.Get("X-Request-ID")) {
		wrong("X-Request-Id %q", got.Header.Get("X-Request-ID"))
	}
	if got.Header.Get("X-Content-Type-Options") != "nosniff" {
		wrong("no nosniff")
	}
	if strings.HasPrefix(r.path, "/v1/") && got.Header.Get("Cache-Control") != "no-store" {
		wrong("Cache-Control %q", got.Header.Get("Cache-Control"))
	}
	whole := fmt.Sprint(string(got.Body), got.Header)
	for _, secret := range s.known() {
		if strings.Contains(whole, secret) {
			wrong("the answer holds a secret")
		}
	}
	if got.Status >= http.StatusBadRequest && r.method != http.MethodHead {
		c.checkFault(r, got, wrong)
	}
	if err := s.matches(r, got); err != nil {
		wrong("not what the OpenAPI document says: %v", err)
	}
}

func (c caller) checkFault(r call, got blackbox.Answer, wrong func(string, ...any)) {
	s := c.suite
	if media := got.Header.Get("Content-Type"); media != "application/problem+json" {
		wrong("Content-Type %q", media)
		return
	}
	dec := json.NewDecoder(bytes.NewReader(got.Body))
	dec.DisallowUnknownFields()
	var f fault
	if err := dec.Decode(&f); err != nil {
		wrong("not a problem: %v", err)
		return
	}
	s.mu.Lock()
	s.codes[f.Code] = true
	s.mu.Unlock()
	target, err := url.Parse(r.path)
	if err != nil {
		wrong("%v", err)
		return
	}
	want := fault{
		Type: cmp.Or(c.problems, "/problems") + "/" + f.Code, Title: http.StatusText(got.Status), Status: published()[f.Code], Detail: f.Detail,
		Instance: target.EscapedPath() + "#" + got.Header.Get("X-Request-ID"), Code: f.Code, Errors: f.Errors,
	}
	if diff := gocmp.Diff(want, f); diff != "" || f.Status != got.Status || f.Detail == "" {
		wrong("(-want +got): %s", diff)
	}
	if !slices.IsSorted(f.locations()) {
		wrong("errors are not sorted by location")
	}
	if len(f.Errors) == 0 && placed[f.Code] {
		wrong("no location")
	}
	for _, part := range f.Errors {
		if !location.MatchString(part.Location) || part.Message == "" {
			wrong("error %+v", part)
		}
	}
	if found := driverSpeech.FindString(string(got.Body)); found != "" && !strings.Contains(r.path, found) {
		wrong("the answer quotes a library: %q", found)
	}
	for _, address := range []string{s.Info.Sample.Host + ":", strconv.Itoa(s.Info.Sample.Port), "/" + s.Info.Sample.Host} {
		if strings.Contains(string(got.Body), address) {
			wrong("the answer names an address")
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

// matches holds the answer, and the request if the answer is a good one, against the document. What is no operation of
// it is not in it.
func (s *apiSuite) matches(r call, got blackbox.Answer) error {
	req, err := http.NewRequest(r.method, apiHost+r.path, strings.NewReader(r.body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(r.headers); i += 2 {
		req.Header.Add(r.headers[i], r.headers[i+1])
	}
	route, params, err := s.routes.FindRoute(req)
	if err != nil {
		return nil // not an operation: unknown routes and wrong methods are not documented
	}
	in := &openapi3filter.RequestValidationInput{
		Request: req, PathParams: params, QueryParams: req.URL.Query(), Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true},
	}
	if got.Status < http.StatusBadRequest && r.body != "" && !r.lenient {
		if err = openapi3filter.ValidateRequest(req.Context(), in); err != nil {
			return fmt.Errorf("the request: %w", err)
		}
	}
	err = openapi3filter.ValidateResponse(req.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: got.Status, Header: got.Header,
		Body: io.NopCloser(bytes.NewReader(got.Body)), Options: in.Options,
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered[fmt.Sprint(route.Operation.OperationID, " ", got.Status)] = true
	return nil
}
