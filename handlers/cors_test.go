package handlers_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/handlers"
)

const page = "https://app.example.com"

// corsHeaders are those of an answer that are about other origins.
func corsHeaders(a answer) map[string]string {
	got := map[string]string{}
	for _, name := range []string{
		"Access-Control-Allow-Origin", "Access-Control-Allow-Methods", "Access-Control-Allow-Headers", "Access-Control-Allow-Credentials",
		"Access-Control-Expose-Headers", "Access-Control-Max-Age", "Vary",
	} {
		if value := a.header.Get(name); value != "" {
			got[name] = value
		}
	}
	return got
}

func TestCORS(t *testing.T) {
	t.Parallel()
	s := newService(t, func(o *handlers.Options) { o.CORSOrigins = []string{page, "http://localhost:3000"} })
	const exposed = "Location, ETag, X-Request-Id, Retry-After, Idempotent-Replayed"
	preflight := map[string]string{
		"Access-Control-Allow-Origin": page, "Access-Control-Allow-Methods": "DELETE, GET, HEAD, PATCH, POST",
		"Access-Control-Allow-Headers": "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, If-Range, Range, Traceparent, Tracestate, X-Product-Name, X-Request-Id",
		"Access-Control-Max-Age":       "600", "Vary": "Origin, Access-Control-Request-Method, Access-Control-Request-Headers",
	}
	readable := map[string]string{"Access-Control-Allow-Origin": page, "Access-Control-Expose-Headers": exposed, "Vary": "Origin"}
	foreign := map[string]string{"Vary": "Origin"}
	asks := []string{"Access-Control-Request-Method", "PATCH", "Access-Control-Request-Headers", "authorization,x-product-name"}
	for name, tc := range map[string]struct {
		method, path, token string
		origins             []string
		headers             []string
		status              int
		want                map[string]string
	}{
		"preflight, no token":      {http.MethodOptions, connectionsPath, "", []string{page}, asks, 204, preflight},
		"preflight of a job":       {http.MethodOptions, "/v1/fetcher/x/result", "", []string{page}, asks, 204, preflight},
		"preflight, other origin":  {http.MethodOptions, connectionsPath, "", []string{"https://evil.example"}, asks, 401, foreign},
		"preflight, origin's case": {http.MethodOptions, connectionsPath, "", []string{"https://APP.example.com"}, asks, 401, foreign},
		"preflight, other port":    {http.MethodOptions, connectionsPath, "", []string{page + ":8443"}, asks, 401, foreign},
		"preflight, suffix":        {http.MethodOptions, connectionsPath, "", []string{page + ".evil.example"}, asks, 401, foreign},
		"preflight, null":          {http.MethodOptions, connectionsPath, "", []string{"null"}, asks, 401, foreign},
		"preflight, two origins":   {http.MethodOptions, connectionsPath, "", []string{page, page}, asks, 401, foreign},
		"preflight, no origin":     {http.MethodOptions, connectionsPath, "", nil, asks, 401, foreign},
		"options, no preflight":    {http.MethodOptions, connectionsPath, "", []string{page}, nil, 401, readable},
		"options with a token":     {http.MethodOptions, connectionsPath, s.token("acme"), []string{page}, nil, 405, readable},
		"request":                  {http.MethodGet, connectionsPath, s.token("acme"), []string{page}, nil, 200, readable},
		"request, other origin":    {http.MethodGet, connectionsPath, s.token("acme"), []string{"https://evil.example"}, nil, 200, foreign},
		"request, no origin":       {http.MethodGet, connectionsPath, s.token("acme"), nil, nil, 200, foreign},
		"error":                    {http.MethodGet, connectionsPath + "?page=0", s.token("acme"), []string{page}, nil, 400, readable},
		"unauthenticated":          {http.MethodGet, connectionsPath, "", []string{page}, nil, 401, readable},
		"unknown route":            {http.MethodGet, "/nowhere", "", []string{page}, nil, 404, readable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			headers := tc.headers
			for _, origin := range tc.origins {
				headers = append(slices.Clip(headers), "Origin", origin)
			}
			got := s.expect(t, tc.status, "", tc.method, tc.path, tc.token, "", headers...)
			if diff := cmp.Diff(tc.want, corsHeaders(got)); diff != "" {
				t.Error(diff)
			}
			if tc.status == http.StatusNoContent && (got.body != "" || got.header.Get("Allow") != "" || got.header.Get("X-Request-Id") == "") { //nolint:canonicalheader // the published spelling
				t.Errorf("body %q, headers %v", got.body, got.header)
			}
		})
	}
}

func TestCORSIsOffByDefault(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	got := s.expect(t, http.StatusUnauthorized, "FET-0006", http.MethodOptions, connectionsPath, "", "",
		"Origin", page, "Access-Control-Request-Method", "GET")
	if diff := cmp.Diff(map[string]string{}, corsHeaders(got)); diff != "" {
		t.Error(diff)
	}
}
