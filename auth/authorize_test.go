package auth

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"

	"github.com/fetcherhq/fetcher/problem"
)

// principal verifies a token with the claims.
func principal(t testing.TB, a *Authenticator, s signer, claims jwt.MapClaims) *Principal {
	t.Helper()
	p, err := a.Verify(t.Context(), s.sign(t, claims, nil))
	if err != nil {
		t.Fatalf("Verify: %v", err)
	}
	return p
}

func authorizeCode(ctx context.Context, a *Authenticator, p *Principal, action string) problem.Code {
	if err := a.Authorize(ctx, p, "connections", action); err != nil {
		return problem.CodeOf(err)
	}
	return ""
}

func TestAuthorizeAsks(t *testing.T) {
	t.Parallel()
	good := rsaSigner("k1", 0)
	machineClaims := with(userClaims(), jwt.MapClaims{"type": "application", "sub": "robot"})
	for name, tt := range map[string]struct {
		claims      jwt.MapClaims
		application string
		want        map[string]any
	}{
		"person": {claims: userClaims(), want: map[string]any{
			"sub": "acme-people/alice", "resource": "connections", "action": "post", "product": "fetcher",
		}},
		"machine": {claims: machineClaims, want: map[string]any{
			"sub": "admin/fetcher-editor-role", "resource": "connections", "action": "post",
		}},
		"another application": {claims: userClaims(), application: "katara", want: map[string]any{
			"sub": "acme-people/alice", "resource": "connections", "action": "post", "product": "katara",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := newIdentity(t, good)
			var got map[string]any
			var header http.Header
			id.set(func() {
				id.decide = func(w http.ResponseWriter, r *http.Request, body []byte) {
					header = r.Header.Clone()
					_ = json.Unmarshal(body, &got)
					_, _ = io.WriteString(w, `{"authorized": true, "other": 1}`)
				}
			})
			a, _ := id.open(t, func(o *Options) { o.Application = tt.application })
			p := principal(t, a, good, tt.claims)
			span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
			ctx := trace.ContextWithSpanContext(t.Context(), span)
			if err := a.Authorize(ctx, p, "connections", "post"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("question (-want +got):\n%s", diff)
			}
			if h := header["Authorization"]; len(h) != 1 || h[0] != p.Token {
				t.Error("Authorization is not the bare token")
			}
			if header.Get("Content-Type") != "application/json" || header.Get("Traceparent") == "" {
				t.Errorf("header = %v", header)
			}
		})
	}
}

func TestAuthorizeAnswers(t *testing.T) {
	t.Parallel()
	good := rsaSigner("k1", 0)
	tests := map[string]struct {
		status int
		body   string
		want   problem.Code
		calls  int // of two requests
	}{
		"allowed":                {200, `{"authorized": true}`, "", 1},
		"denied":                 {200, `{"authorized": false}`, problem.Forbidden, 1},
		"forbidden":              {403, `{"authorized": true}`, problem.Forbidden, 1},
		"unauthorized":           {401, `{"authorized": true}`, problem.Unauthenticated, 1},
		"server error":           {500, `{"authorized": true}`, problem.Unavailable, 2},
		"bad gateway":            {502, ``, problem.Unavailable, 2},
		"bad request":            {400, `{"authorized": true}`, problem.Unavailable, 2},
		"not found":              {404, ``, problem.Unavailable, 2},
		"too many requests":      {429, ``, problem.Unavailable, 2},
		"created":                {201, `{"authorized": true}`, problem.Unavailable, 2},
		"no content":             {204, ``, problem.Unavailable, 2},
		"redirect":               {307, ``, problem.Unavailable, 2},
		"empty":                  {200, ``, problem.Unavailable, 2},
		"empty object":           {200, `{}`, problem.Unavailable, 2},
		"null":                   {200, `null`, problem.Unavailable, 2},
		"member null":            {200, `{"authorized": null}`, problem.Unavailable, 2},
		"string":                 {200, `{"authorized": "true"}`, problem.Unavailable, 2},
		"number":                 {200, `{"authorized": 1}`, problem.Unavailable, 2},
		"other case":             {200, `{"Authorized": true}`, problem.Unavailable, 2},
		"twice":                  {200, `{"authorized": false, "authorized": true}`, problem.Unavailable, 2},
		"cut":                    {200, `{"authorized": true`, problem.Unavailable, 2},
		"trailing":               {200, `{"authorized": true} x`, problem.Unavailable, 2},
		"not JSON":               {200, `<html>`, problem.Unavailable, 2},
		"bare boolean":           {200, `true`, problem.Unavailable, 2},
		"wrapped":                {200, `{"data": {"authorized": true}}`, problem.Unavailable, 2},
		"allowed, too long":      {200, `{"authorized": true}` + strings.Repeat(" ", maxAnswerBytes), problem.Unavailable, 2},
		"allowed, line end":      {200, "{\"authorized\":true}\n", "", 1},
		"allowed, other members": {200, `{"authorized": true, "reason": "editor"}`, "", 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := newIdentity(t, good)
			id.set(func() {
				id.decide = func(w http.ResponseWriter, _ *http.Request, _ []byte) {
					w.Header().Set("Location", "/keys")
					w.WriteHeader(tt.status)
					_, _ = io.WriteString(w, tt.body)
				}
			})
			a, _ := id.open(t)
			p := principal(t, a, good, userClaims())
			for range 2 {
				err := a.Authorize(t.Context(), p, "connections", "get")
				var e *problem.Error
				if tt.want != "" && !errors.As(err, &e) || tt.want == "" && err != nil {
					t.Fatalf("err = %v", err)
				}
				if e != nil && (e.Code != tt.want || (e.RetryAfter > 0) != (tt.want == problem.Unavailable)) {
					t.Errorf("err = %+v, want %s", e, tt.want)
				}
			}
			if n := id.count(authorizePath); n != tt.calls {
				t.Errorf("two requests made %d calls, want %d", n, tt.calls)
			}
		})
	}
}

func TestAuthorizeOnceForAThousandRequests(t *testing.T) {
	t.Parallel()
	good := rsaSigner("k1", 0)
	id := newIdentity(t, good)
	a, _ := id.open(t)
	loaded(t, a)
	header := bearer(good.sign(t, userClaims(), nil))
	var wg sync.WaitGroup
	gate := make(chan struct{})
	for range 1000 {
		wg.Go(func() {
			<-gate
			p, err := a.Authenticate(t.Context(), header)
			if err == nil {
				err = a.Authorize(t.Context(), p, "connections", "get")
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	close(gate)
	wg.Wait()
	if n := id.count(authorizePath); n != 1 {
		t.Errorf("%d authorisation calls", n)
	}
}

// A caller may look into the cache just before a call ends, and start the next just after: that one must look again.
func TestDecisionMadeMeanwhileIsUsed(t *testing.T) {
	t.Parallel()
	good := rsaSigner("k1", 0)
	id := newIdentity(t, good)
	a, _ := id.open(t)
	p := principal(t, a, good, userClaims())
	key := decisionKey{token: digestFor(p), permission: permission{"fetcher", "connections", "get"}}
	for range 2 {
		if o, err := a.decide(t.Context(), p, key); o != outcomeAllow {
			t.Errorf("decide = %d, %v", o, err)
		}
	}
	if n := id.count(authorizePath); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// The caller that came first leaves; those that share its call get their answer.
func TestFirstCallerLeaving(t *testing.T) {
	t.Parallel()
	good := rsaSigner("k1", 0)
	id := newIdentity(t, good)
	asked, release := make(chan struct{}), make(chan struct{})
	id.set(func() {
		id.decide = func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			close(asked)
			<-release
			_, _ = io.WriteString(w, `{"authorized": true}`)
		}
	})
	a, _ := id.open(t)
	p := principal(t, a, good, userClaims())
	ctx, leave := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- a.Authorize(ctx, p, "connections", "get") }()
	<-asked
	go func() { second <- a.Authorize(t.Context(), p, "connections", "get") }()
	leave()
	wantCode(t, "first", problem.CodeOf(<-first), problem.Unavailable)
	close(release)
	if err := <-second; err != nil {
		t.Errorf("second: %v", err)
	}
	if n := id.count(authorizePath); n != 1 {
		t.Errorf("%d calls", n)
	}
}

func TestDecisionsEnd(t *testing.T) {
	t.Parallel()
	good := rsaSigner("k1", 0)
	const second = time.Second
	for name, tt := range map[string]struct {
		ttl   time.Duration
		exp   time.Duration
		steps []time.Duration // when to ask, from the start
		calls []int           // made until then
		last  problem.Code    // at the last step
	}{
		"by age":          {30 * second, time.Hour, []time.Duration{0, 30*second - 1, 30 * second}, []int{1, 1, 2}, ""},
		"off":             {0, time.Hour, []time.Duration{0, 0, second}, []int{1, 2, 3}, ""},
		"with the token":  {time.Hour, 10 * second, []time.Duration{0, 10*second - 1, 10 * second, 10 * second}, []int{1, 1, 2, 3}, ""},
		"after leeway":    {time.Hour, 10 * second, []time.Duration{0, 40*second - 1, 40 * second}, []int{1, 2, 2}, problem.Unauthenticated},
		"expired already": {time.Hour, -5 * second, []time.Duration{0, 1, 2}, []int{1, 2, 3}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := newIdentity(t, good)
			a, c := id.open(t, func(o *Options) { o.CacheTTL = tt.ttl })
			p := principal(t, a, good, with(userClaims(), jwt.MapClaims{"exp": start.Add(tt.exp).Unix()}))
			for i, at := range tt.steps {
				c.offset.Store(int64(at))
				code := authorizeCode(t.Context(), a, p, "get")
				if want := tt.last; i == len(tt.steps)-1 && code != want || i < len(tt.steps)-1 && code != "" {
					t.Errorf("at %s: code = %q", at, code)
				}
				if n := id.count(authorizePath); n != tt.calls[i] {
					t.Errorf("at %s: %d calls, want %d", at, n, tt.calls[i])
				}
			}
		})
	}
}

func TestDecisionsAreApart(t *testing.T) {
	t.Parallel()
	good := rsaSigner("k1", 0)
	id := newIdentity(t, good)
	var denied atomic.Bool
	id.set(func() {
		id.decide = func(w http.ResponseWriter, _ *http.Request, body []byte) {
			var q question
			_ = json.Unmarshal(body, &q)
			allow := q.Sub == "acme-people/alice" && q.Resource == "connections" && q.Action == "get"
			denied.CompareAndSwap(false, !allow)
			_ = json.NewEncoder(w).Encode(map[string]any{"authorized": allow})
		}
	})
	a, _ := id.open(t)
	alice := principal(t, a, good, userClaims())
	bob := principal(t, a, good, with(userClaims(), jwt.MapClaims{"sub": "bob"}))
	posing := *alice
	posing.Token = bob.Token
	posing.Account = bob.Account
	for range 2 {
		for _, tt := range []struct {
			p                *Principal
			resource, action string
			want             problem.Code
		}{
			{alice, "connections", "get", ""},
			{alice, "connections", "delete", problem.Forbidden},
			{alice, "fetcher", "get", problem.Forbidden},
			{bob, "connections", "get", problem.Forbidden},
			{&posing, "connections", "get", problem.Forbidden},
		} {
			var code problem.Code
			if err := a.Authorize(t.Context(), tt.p, tt.resource, tt.action); err != nil {
				code = problem.CodeOf(err)
			}
			if code != tt.want {
				t.Errorf("%s %s %s: %q, want %q", tt.p.Subject, tt.action, tt.resource, code, tt.want)
			}
		}
	}
	if n := id.count(authorizePath); n != 4 {
		t.Errorf("%d calls, want one for each question", n)
	}
}

func TestDecisionsWhileDown(t *testing.T) {
	t.Parallel()
	good := rsaSigner("k1", 0)
	id := newIdentity(t, good)
	a, c := id.open(t)
	p := principal(t, a, good, userClaims())
	wantCode(t, "before", authorizeCode(t.Context(), a, p, "get"), "")
	id.set(func() { id.down = true })
	c.advance(29 * time.Second)
	wantCode(t, "cached decision", authorizeCode(t.Context(), a, p, "get"), "")
	wantCode(t, "new question", authorizeCode(t.Context(), a, p, "post"), problem.Unavailable)
	c.advance(time.Second)
	wantCode(t, "decision of age", authorizeCode(t.Context(), a, p, "get"), problem.Unavailable)
	id.set(func() { id.down = false })
	wantCode(t, "after", authorizeCode(t.Context(), a, p, "get"), "")
}

func TestAuthorizeTimeout(t *testing.T) {
	t.Parallel()
	good := rsaSigner("k1", 0)
	id := newIdentity(t, good)
	release := make(chan struct{})
	id.set(func() { id.decide = func(http.ResponseWriter, *http.Request, []byte) { <-release } })
	defer close(release)
	a, _ := id.open(t)
	p := principal(t, a, good, userClaims())
	a.timeout = 50 * time.Millisecond
	began := time.Now()
	err := a.Authorize(t.Context(), p, "connections", "get")
	if took := time.Since(began); took < a.timeout || took > 10*time.Second {
		t.Errorf("gave up after %s", took)
	}
	wantCode(t, "hanging service", problem.CodeOf(err), problem.Unavailable)
	if !errors.Is(err, networkError("timeout")) {
		t.Errorf("err = %v", err)
	}
}

func TestAuthorizeByClaims(t *testing.T) {
	t.Parallel()
	good := rsaSigner("k1", 0)
	id := newIdentity(t, good)
	a, _ := id.open(t, func(o *Options) { o.Mode = ModeClaims })
	tests := map[string]struct {
		permissions any
		scope       any
		allowed     bool
	}{
		"exact":              {[]string{"fetcher:connections:get"}, nil, true},
		"resource":           {[]string{"fetcher:connections:*"}, nil, true},
		"application":        {[]string{"fetcher:*"}, nil, true},
		"scope":              {nil, "openid fetcher:connections:get profile", true},
		"among others":       {[]string{"x", "fetcher:connections:get"}, "y", true},
		"none":               {nil, nil, false},
		"empty":              {[]string{""}, "", false},
		"other action":       {[]string{"fetcher:connections:post"}, nil, false},
		"other resource":     {[]string{"fetcher:fetcher:get", "fetcher:fetcher:*"}, nil, false},
		"other application":  {[]string{"katara:connections:get", "katara:*"}, nil, false},
		"star alone":         {[]string{"*"}, "*", false},
		"stars":              {[]string{"*:*:*", "*:connections:get", "fetcher:*:get", "fetcher:*:*"}, nil, false},
		"prefix":             {[]string{"fetcher:connections:ge", "fetcher:connections:gett", "fetcher:conn:*"}, nil, false},
		"longer application": {[]string{"fetcherx:connections:get", "xfetcher:*"}, nil, false},
		"other case":         {[]string{"Fetcher:connections:get", "fetcher:connections:GET"}, nil, false},
		"cut":                {[]string{"fetcher", "fetcher:", "fetcher:connections", "fetcher:connections:"}, nil, false},
		"suffix":             {[]string{"fetcher:connections:get:x", "fetcher:*:x", "fetcher:connections:*x"}, nil, false},
		"comma in scope":     {nil, "fetcher:connections:get,fetcher:*", false},
		"string permissions": {"fetcher:*", nil, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claims := with(userClaims(), jwt.MapClaims{"permissions": tt.permissions, "scope": tt.scope})
			want := problem.Forbidden
			if tt.allowed {
				want = ""
			}
			wantCode(t, name, authorizeCode(t.Context(), a, principal(t, a, good, claims), "get"), want)
		})
	}
	t.Cleanup(func() {
		if n := id.count(authorizePath); n != 0 {
			t.Errorf("%d calls", n)
		}
	})
}

func TestAnonymousIsForDisabledOnly(t *testing.T) {
	t.Parallel()
	good := rsaSigner("k1", 0)
	id := newIdentity(t, good)
	a, _ := id.open(t)
	byClaims, _ := id.open(t, func(o *Options) { o.Mode = ModeClaims })
	off := Disabled{TenantID: "default"}
	anon, err := off.Authenticate(t.Context(), []string{"Bearer x", "Basic y"})
	if err != nil {
		t.Fatal(err)
	}
	forged := *anon
	forged.Token, forged.Permissions, forged.ExpiresAt = "x", []string{"fetcher:*"}, start.Add(time.Hour)
	for name, p := range map[string]*Principal{"anonymous": anon, "forged": &forged, "nobody": nil, "zero": {}} {
		wantCode(t, name, authorizeCode(t.Context(), a, p, "get"), problem.Unauthenticated)
		wantCode(t, name+" by claims", authorizeCode(t.Context(), byClaims, p, "get"), problem.Unauthenticated)
	}
	if diff := cmp.Diff([]any{KindAnon, "default", "anonymous"}, []any{anon.Kind, anon.TenantID, anon.Subject}); diff != "" {
		t.Error(diff)
	}
	if err := off.Authorize(t.Context(), anon, "connections", "delete"); err != nil {
		t.Errorf("disabled: %v", err)
	}
	for name, p := range map[string]*Principal{
		"person": principal(t, a, good, userClaims()), "nobody": nil, "other tenant": Anonymous("acme"),
	} {
		wantCode(t, "disabled, "+name, problem.CodeOf(off.Authorize(t.Context(), p, "connections", "get")), problem.Forbidden)
	}
	if s := off.Status(t.Context()); s.State != StateNone {
		t.Errorf("status = %+v", s)
	}
}

func TestContextCarriesThePrincipal(t *testing.T) {
	t.Parallel()
	p := Anonymous("default")
	if got := FromContext(NewContext(t.Context(), p)); got != p {
		t.Errorf("got %v", got)
	}
	if got := FromContext(t.Context()); got != nil {
		t.Errorf("got %v of an empty context", got)
	}
}
