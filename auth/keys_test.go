package auth

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"

	"github.com/fetcherhq/fetcher/problem"
)

func verifyCode(t testing.TB, a *Authenticator, token string) problem.Code {
	t.Helper()
	_, err := a.Verify(t.Context(), token)
	if err == nil {
		return ""
	}
	return problem.CodeOf(err)
}

func wantCode(t testing.TB, what string, got, want problem.Code) {
	t.Helper()
	if got != want {
		t.Errorf("%s: code = %q, want %q", what, got, want)
	}
}

func TestRotationNeedsNoRestart(t *testing.T) {
	t.Parallel()
	old, next := rsaSigner("k1", 0), rsaSigner("k2", 1)
	id := newIdentity(t, old)
	a, c := id.open(t)
	loaded(t, a)
	oldToken, nextToken := old.sign(t, userClaims(), nil), next.sign(t, userClaims(), nil)
	wantCode(t, "old token", verifyCode(t, a, oldToken), "")

	id.publish(t, old, next)
	wantCode(t, "new token after rotation", verifyCode(t, a, nextToken), "")
	wantCode(t, "old token beside it", verifyCode(t, a, oldToken), "")

	// The old key is withdrawn: a token of it that was verified and cached ends with the next refresh.
	id.publish(t, next)
	c.advance(unknownKeyInterval)
	wantCode(t, "unknown key", verifyCode(t, a, rsaSigner("k9", 2).sign(t, userClaims(), nil)), problem.Unauthenticated)
	wantCode(t, "token of the withdrawn key", verifyCode(t, a, oldToken), problem.Unauthenticated)
	wantCode(t, "new token", verifyCode(t, a, nextToken), "")
}

func TestRotationUnderTheSameKid(t *testing.T) {
	t.Parallel()
	old, next := rsaSigner("k1", 0), rsaSigner("k1", 1)
	id := newIdentity(t, old)
	a, _ := id.open(t)
	loaded(t, a)
	oldToken := old.sign(t, userClaims(), nil)
	wantCode(t, "old token", verifyCode(t, a, oldToken), "")
	id.publish(t, next)
	wantCode(t, "unknown key", verifyCode(t, a, rsaSigner("k9", 2).sign(t, userClaims(), nil)), problem.Unauthenticated)
	wantCode(t, "cached token of the replaced key", verifyCode(t, a, oldToken), problem.Unauthenticated)
	wantCode(t, "token of the new key", verifyCode(t, a, next.sign(t, userClaims(), nil)), "")
}

func TestRotationWithoutKid(t *testing.T) {
	t.Parallel()
	old, next := rsaSigner("", 0), edSigner(t, "")
	id := newIdentity(t, old)
	a, c := id.open(t)
	loaded(t, a)
	wantCode(t, "old token", verifyCode(t, a, old.sign(t, userClaims(), nil)), "")
	id.publish(t, next)
	wantCode(t, "new token", verifyCode(t, a, next.sign(t, userClaims(), nil)), "")
	c.advance(unknownKeyInterval)
	before := id.count("/keys")
	for i := range 50 {
		claims := with(userClaims(), map[string]any{"jti": i})
		wantCode(t, "token of the withdrawn key", verifyCode(t, a, old.sign(t, claims, nil)), problem.Unauthenticated)
	}
	if n := id.count("/keys") - before; n != 1 {
		t.Errorf("50 bad tokens without kid made %d refreshes", n)
	}
}

func TestUnknownKidFlood(t *testing.T) {
	t.Parallel()
	good, bogus := rsaSigner("k1", 0), edSigner(t, "")
	id := newIdentity(t, good)
	a, c := id.open(t)
	loaded(t, a)
	before, discovered := id.count("/keys"), id.count(discoveryPath)
	n := 0
	flood := func() {
		t.Helper()
		var wg sync.WaitGroup
		for range 8 {
			for range 50 {
				n++
				token := bogus.sign(t, userClaims(), map[string]any{"kid": fmt.Sprint("bogus-", n)})
				wg.Go(func() { wantCode(t, "bogus kid", verifyCode(t, a, token), problem.Unauthenticated) })
			}
		}
		wg.Wait()
	}
	for interval := 1; interval <= 3; interval++ {
		flood()
		c.advance(unknownKeyInterval - time.Nanosecond)
		flood()
		if got := id.count("/keys") - before; got != interval {
			t.Fatalf("after %d intervals: %d refreshes", interval, got)
		}
		c.advance(time.Nanosecond)
	}
	if got := id.count(discoveryPath) - discovered; got != 0 {
		t.Errorf("the flood asked for discovery %d times", got)
	}
	wantCode(t, "good token after the flood", verifyCode(t, a, good.sign(t, userClaims(), nil)), "")
}

// Tokens of a new key that come together must all pass, although one refresh is made for all of them.
func TestTokensOfANewKeyShareTheRefresh(t *testing.T) {
	t.Parallel()
	old, next := rsaSigner("k1", 0), edSigner(t, "k2")
	id := newIdentity(t, old)
	a, _ := id.open(t)
	loaded(t, a)
	before := id.count("/keys")
	id.publish(t, old, next)
	var wg sync.WaitGroup
	for i := range 200 {
		token := next.sign(t, with(userClaims(), map[string]any{"jti": i}), nil)
		wg.Go(func() { wantCode(t, "token of the new key", verifyCode(t, a, token), "") })
	}
	wg.Wait()
	if n := id.count("/keys") - before; n != 1 {
		t.Errorf("%d refreshes", n)
	}
}

func TestStartsWhileIdentityServiceIsDown(t *testing.T) {
	t.Parallel()
	good := rsaSigner("k1", 0)
	id := newIdentity(t, good)
	id.set(func() { id.down = true })
	a, _ := id.open(t)
	token := good.sign(t, userClaims(), nil)
	_, err := a.Verify(t.Context(), token)
	var e *problem.Error
	if !errors.As(err, &e) || e.Code != problem.Unavailable || e.RetryAfter <= 0 || e.Detail != detailUnavailable {
		t.Fatalf("err = %#v", err)
	}
	if strings.Contains(err.Error(), strings.TrimPrefix(id.URL, "http://")) {
		t.Errorf("the error has the address: %v", err)
	}
	wantCode(t, "malformed token needs no key", verifyCode(t, a, "abc"), problem.Unauthenticated)
	if s := a.Status(t.Context()); s.State != StateDown || s.Reason == "" {
		t.Errorf("status = %+v", s)
	}
	id.set(func() { id.down = false })
	eventually(t, "the token is accepted", func() bool { return verifyCode(t, a, token) == "" })
	if s := a.Status(t.Context()); s != (Status{State: StateUp}) {
		t.Errorf("status = %+v", s)
	}
}

// The first token finds the fetch of the start under way and waits for it.
func TestFirstTokenWaitsForTheKeys(t *testing.T) {
	t.Parallel()
	good := rsaSigner("k1", 0)
	for range 20 {
		id := newIdentity(t, good)
		a, _ := id.open(t)
		wantCode(t, "first token", verifyCode(t, a, good.sign(t, userClaims(), nil)), "")
		if n := id.count("/keys"); n != 1 {
			t.Errorf("%d refreshes", n)
		}
	}
}

func TestCachedKeysWorkWhileDown(t *testing.T) {
	t.Parallel()
	good := rsaSigner("k1", 0)
	id := newIdentity(t, good)
	a, c := id.open(t, func(o *Options) { o.RefreshInterval = 5 * time.Millisecond })
	loaded(t, a)
	id.set(func() { id.down = true })
	eventually(t, "a refresh failed", func() bool {
		a.keys.mu.Lock()
		defer a.keys.mu.Unlock()
		return a.keys.lastErr != nil
	})
	token := good.sign(t, userClaims(), nil)
	wantCode(t, "new token of a known key", verifyCode(t, a, token), "")
	c.advance(30 * time.Minute)
	wantCode(t, "much later", verifyCode(t, a, token), "")
	wantCode(t, "unknown key", verifyCode(t, a, edSigner(t, "k2").sign(t, userClaims(), nil)), problem.Unavailable)
	if s := a.Status(t.Context()); s.State != StateDegraded || s.Reason != "network" {
		t.Errorf("status = %+v", s)
	}
}

func TestBackgroundRefresh(t *testing.T) {
	t.Parallel()
	old, next := rsaSigner("k1", 0), rsaSigner("k2", 1)
	id := newIdentity(t, old)
	a, _ := id.open(t, func(o *Options) { o.RefreshInterval = 2 * time.Millisecond })
	loaded(t, a)
	token := old.sign(t, userClaims(), nil)
	wantCode(t, "token", verifyCode(t, a, token), "")
	generation := a.keys.generation()
	seen := id.count("/keys")
	eventually(t, "it refreshed thrice", func() bool { return id.count("/keys") > seen+3 })
	if g := a.keys.generation(); g != generation {
		t.Errorf("the same keys made a new generation: %d, then %d", generation, g)
	}
	id.publish(t, next)
	eventually(t, "the withdrawn key is gone", func() bool { return verifyCode(t, a, token) == problem.Unauthenticated })
	// An issuer that changes ends tokens of the old one; one that vanishes is still demanded.
	id.publish(t, old)
	eventually(t, "the key is back", func() bool { return verifyCode(t, a, token) == "" })
	id.set(func() { id.discovery = map[string]any{"jwks_uri": id.URL + "/keys", "issuer": "https://other.test"} })
	eventually(t, "the issuer changed", func() bool { return verifyCode(t, a, token) == problem.Unauthenticated })
	id.set(func() { id.discovery = nil })
	seen = id.count(jwksPath)
	eventually(t, "the default is asked", func() bool { return id.count(jwksPath) > seen })
	if got := a.keys.issuer(); got != "https://other.test" {
		t.Errorf("issuer = %q", got)
	}
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	good := rsaSigner("k1", 0)
	token := good.sign(t, userClaims(), nil)
	other := good.sign(t, with(userClaims(), map[string]any{"iss": "https://other.test"}), nil)
	bare := good.sign(t, without(userClaims(), "iss"), nil)
	tests := map[string]struct {
		service                   func(*identity)
		options                   func(*identity, *Options)
		token, other, bare        problem.Code
		wantDefaultPath, wantMade bool
	}{
		"document": {other: problem.Unauthenticated, bare: problem.Unauthenticated},
		"none": {
			service: func(s *identity) { s.discovery = nil }, wantDefaultPath: true,
		},
		"none, issuer given": {
			service: func(s *identity) { s.discovery = nil },
			options: func(_ *identity, o *Options) { o.Issuer = "https://issuer.test" },
			other:   problem.Unauthenticated, bare: problem.Unauthenticated, wantDefaultPath: true,
		},
		"forbidden": {
			service: func(s *identity) { s.status[discoveryPath] = http.StatusForbidden }, wantDefaultPath: true,
		},
		"issuer given": {
			options: func(_ *identity, o *Options) { o.Issuer = "https://other.test" },
			token:   problem.Unauthenticated, bare: problem.Unauthenticated,
		},
		"key set given": {
			service: func(s *identity) {
				s.discovery = map[string]any{"jwks_uri": s.URL + "/x", "issuer": "https://issuer.test"}
			},
			options: func(s *identity, o *Options) { o.JWKSURL = s.URL + "/keys" },
			other:   problem.Unauthenticated, bare: problem.Unauthenticated,
		},
		"both given, discovery broken": {
			service: func(s *identity) { s.status[discoveryPath] = http.StatusInternalServerError },
			options: func(s *identity, o *Options) { o.JWKSURL, o.Issuer = s.URL+"/keys", "https://issuer.test" },
			other:   problem.Unauthenticated, bare: problem.Unauthenticated,
		},
		"document without jwks_uri": {
			service: func(s *identity) { s.discovery = map[string]any{"issuer": "https://issuer.test"} },
			other:   problem.Unauthenticated, bare: problem.Unauthenticated, wantDefaultPath: true,
		},
		"address with slash": {
			options: func(s *identity, o *Options) { o.Address = s.URL + "/" },
			other:   problem.Unauthenticated, bare: problem.Unauthenticated,
		},
		// An outage of discovery must not make us forget the issuer.
		"broken": {
			service: func(s *identity) { s.status[discoveryPath] = http.StatusBadGateway },
			token:   problem.Unavailable, other: problem.Unavailable, bare: problem.Unavailable,
		},
		"too many requests": {
			service: func(s *identity) { s.status[discoveryPath] = http.StatusTooManyRequests },
			token:   problem.Unavailable, other: problem.Unavailable, bare: problem.Unavailable,
		},
		"not JSON": {
			service: func(s *identity) { s.discovery = "hello" },
			token:   problem.Unavailable, other: problem.Unavailable, bare: problem.Unavailable,
		},
		"jwks_uri relative": {
			service: func(s *identity) { s.discovery = map[string]any{"jwks_uri": "/keys"} },
			token:   problem.Unavailable, other: problem.Unavailable, bare: problem.Unavailable,
		},
		"jwks_uri a file": {
			service: func(s *identity) { s.discovery = map[string]any{"jwks_uri": "file:///etc/passwd"} },
			token:   problem.Unavailable, other: problem.Unavailable, bare: problem.Unavailable,
		},
		"key set missing": {
			service: func(s *identity) { s.status["/keys"] = http.StatusNotFound },
			token:   problem.Unavailable, other: problem.Unavailable, bare: problem.Unavailable,
		},
		"key set empty": {
			service: func(s *identity) { s.keys = []any{} },
			token:   problem.Unauthenticated, other: problem.Unauthenticated, bare: problem.Unauthenticated,
		},
		"key set null": {
			service: func(s *identity) { s.keys = nil },
			token:   problem.Unavailable, other: problem.Unavailable, bare: problem.Unavailable,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := newIdentity(t, good)
			if tt.service != nil {
				id.set(func() { tt.service(id) })
			}
			a, _ := id.open(t, func(o *Options) {
				if tt.options != nil {
					tt.options(id, o)
				}
			})
			wantCode(t, "token", verifyCode(t, a, token), tt.token)
			wantCode(t, "token of another issuer", verifyCode(t, a, other), tt.other)
			wantCode(t, "token without issuer", verifyCode(t, a, bare), tt.bare)
			if got := id.count(jwksPath) > 0; got != tt.wantDefaultPath {
				t.Errorf("asked the default address: %v", got)
			}
		})
	}
}

func TestSafeKeySetURL(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		url, base string
		want      bool
	}{
		{"https://a/keys", "https://a", true},
		{"https://b/keys", "http://a", true},
		{"http://a/keys", "http://a", true},
		{"http://a/keys", "https://a", false},
		{"ftp://a/keys", "http://a", false},
		{"//a/keys", "http://a", false},
		{"https:///keys", "http://a", false},
		{"%", "http://a", false},
	} {
		if got := safe(tt.url, tt.base); got != tt.want {
			t.Errorf("safe(%q, %q) = %v", tt.url, tt.base, got)
		}
	}
}

func TestParseKeySetLeavesOddKeysOut(t *testing.T) {
	t.Parallel()
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	good := rsaSigner("good", 0).public(t)
	change := func(f func(*jwkset.JWKMarshal)) jwkset.JWKMarshal {
		k := good
		f(&k)
		return k
	}
	keys := []any{
		map[string]any{"kty": "oct", "k": "c2VjcmV0", "kid": "shared"},
		map[string]any{"kty": "OKP", "crv": "X25519", "x": "hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo", "kid": "exchange"},
		map[string]any{"kty": "strange", "kid": "strange"},
		map[string]any{"kty": "RSA", "n": "!", "e": "AQAB", "kid": "broken"},
		"not an object", 5, nil,
		signer{kid: "weak", alg: "RS256", key: weak}.public(t),
		change(func(k *jwkset.JWKMarshal) { k.USE = jwkset.UseEnc }),
		change(func(k *jwkset.JWKMarshal) { k.ALG = "RSA-OAEP" }),
		change(func(k *jwkset.JWKMarshal) { k.ALG = "HS256" }),
		change(func(k *jwkset.JWKMarshal) { k.KEYOPS = []jwkset.KEYOPS{jwkset.KeyOpsEncrypt} }),
		good,
		change(func(k *jwkset.JWKMarshal) { k.KID, k.USE, k.ALG = "bare", "", "PS512" }),
		change(func(k *jwkset.JWKMarshal) { k.KID, k.KEYOPS = "ops", []jwkset.KEYOPS{jwkset.KeyOpsVerify} }),
	}
	body, err := json.Marshal(map[string]any{"keys": keys})
	if err != nil {
		t.Fatal(err)
	}
	got, skipped, err := parseKeySet(body)
	if err != nil {
		t.Fatal(err)
	}
	kids := make([]string, 0, len(got))
	for _, k := range got {
		kids = append(kids, k.Marshal().KID)
	}
	if fmt.Sprint(kids) != "[good bare ops]" || skipped != len(keys)-3 {
		t.Errorf("kept %v, skipped %d of %d", kids, skipped, len(keys))
	}
	many, err := json.Marshal(map[string]any{"keys": make([]int, maxKeys+1)})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err = parseKeySet(many); !errors.Is(err, errTooManyKeys) {
		t.Errorf("too many keys: %v", err)
	}
}

// A key that names its algorithm verifies no other.
func TestKeyIsBoundToItsAlgorithm(t *testing.T) {
	t.Parallel()
	s := rsaSigner("k1", 0)
	id := newIdentity(t, s)
	published := s.public(t)
	published.ALG = jwkset.AlgPS256
	id.set(func() { id.keys = []any{published} })
	a, _ := id.open(t)
	wantCode(t, "RS256", verifyCode(t, a, s.sign(t, userClaims(), nil)), problem.Unauthenticated)
	s.alg = "PS256"
	wantCode(t, "PS256", verifyCode(t, a, s.sign(t, userClaims(), nil)), "")
}

func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	good := rsaSigner("k1", 0)
	id := newIdentity(t, good)
	id.set(func() { id.discovery = map[string]any{"issuer": strings.Repeat("x", maxAnswerBytes)} })
	a, _ := id.open(t)
	wantCode(t, "token", verifyCode(t, a, good.sign(t, userClaims(), nil)), problem.Unavailable)
}

func TestCloseEndsWhatHangs(t *testing.T) {
	t.Parallel()
	good := rsaSigner("k1", 0)
	id := newIdentity(t, good)
	release := make(chan struct{})
	asked := make(chan struct{}, 1)
	id.set(func() {
		id.decide = func(http.ResponseWriter, *http.Request, []byte) {
			asked <- struct{}{}
			<-release
		}
	})
	a, _ := id.open(t)
	defer close(release)
	p, err := a.Verify(t.Context(), good.sign(t, userClaims(), nil))
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() { failed <- a.Authorize(context.Background(), p, "fetcher", "get") }()
	<-asked
	began := time.Now()
	a.Close()
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("Close took %s", took)
	}
	wantCode(t, "call under way", problem.CodeOf(<-failed), problem.Unavailable)
	wantCode(t, "call after", problem.CodeOf(a.Authorize(t.Context(), p, "fetcher", "post")), problem.Unavailable)
	wantCode(t, "unknown key after", verifyCode(t, a, edSigner(t, "k2").sign(t, userClaims(), nil)), problem.Unavailable)
	a.Close()
}
