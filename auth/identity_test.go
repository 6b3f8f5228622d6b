package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is where test clocks begin.
var start = time.Date(2031, 3, 4, 5, 6, 7, 0, time.UTC)

// clock is a clock that tests move.
type clock struct{ offset atomic.Int64 }

func (c *clock) now() time.Time          { return start.Add(time.Duration(c.offset.Load())) }
func (c *clock) advance(d time.Duration) { c.offset.Add(int64(d)) }

// signer is a private key with its id and the algorithm it signs with.
type signer struct {
	kid string
	alg string
	key crypto.Signer
}

// sign makes a token. A header value of nil removes that header.
func (s signer) sign(t testing.TB, claims jwt.MapClaims, header map[string]any) string {
	t.Helper()
	token := jwt.NewWithClaims(jwt.GetSigningMethod(s.alg), claims)
	if s.kid != "" {
		token.Header["kid"] = s.kid
	}
	for k, v := range header {
		token.Header[k] = v
		if v == nil {
			delete(token.Header, k)
		}
	}
	signed, err := token.SignedString(s.key)
	if err != nil {
		t.Fatalf("sign: %v", err)
	}
	return signed
}

// public returns the key as it is published.
func (s signer) public(t testing.TB) jwkset.JWKMarshal {
	t.Helper()
	k, err := jwkset.NewJWKFromKey(s.key.Public(), jwkset.JWKOptions{
		Metadata: jwkset.JWKMetadataOptions{KID: s.kid, USE: jwkset.UseSig},
	})
	if err != nil {
		t.Fatalf("publish key: %v", err)
	}
	return k.Marshal()
}

// rsaKeys are made once: they take long.
var rsaKeys = sync.OnceValue(func() []*rsa.PrivateKey {
	keys := make([]*rsa.PrivateKey, 3)
	for i := range keys {
		k, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			panic(err)
		}
		keys[i] = k
	}
	return keys
})

func rsaSigner(kid string, i int) signer { return signer{kid: kid, alg: "RS256", key: rsaKeys()[i]} }

func ecSigner(t testing.TB, kid, alg string, curve elliptic.Curve) signer {
	t.Helper()
	k, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signer{kid: kid, alg: alg, key: k}
}

func edSigner(t testing.TB, kid string) signer {
	t.Helper()
	_, k, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signer{kid: kid, alg: "EdDSA", key: k}
}

// identity is an identity service whose behaviour tests choose.
type identity struct {
	*httptest.Server

	mu        sync.Mutex
	keys      []any
	discovery any // answered as JSON; nil: 404
	status    map[string]int
	decide    func(w http.ResponseWriter, r *http.Request, body []byte)
	hits      map[string]int
	down      bool
}

// newIdentity starts a service that publishes the keys, has a discovery document and allows everything.
func newIdentity(t testing.TB, signers ...signer) *identity {
	t.Helper()
	s := &identity{status: map[string]int{}, hits: map[string]int{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	s.publish(t, signers...)
	s.discovery = map[string]any{"issuer": "https://issuer.test", "jwks_uri": s.URL + "/keys"}
	s.decide = func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		_, _ = io.WriteString(w, `{"authorized": true}`)
	}
	return s
}

func (s *identity) publish(t testing.TB, signers ...signer) {
	t.Helper()
	keys := make([]any, 0, len(signers))
	for _, k := range signers {
		keys = append(keys, k.public(t))
	}
	s.set(func() { s.keys = keys })
}

// set changes the service's behaviour.
func (s *identity) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// count returns how often a path was asked for.
func (s *identity) count(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hits[path]
}

func (s *identity) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.hits[r.URL.Path]++
	down, status, keys, discovery, decide := s.down, s.status[r.URL.Path], s.keys, s.discovery, s.decide
	s.mu.Unlock()
	switch {
	case down:
		panic(http.ErrAbortHandler)
	case status != 0:
		w.WriteHeader(status)
	case r.URL.Path == authorizePath && r.Method == http.MethodPost:
		decide(w, r, body)
	case r.URL.Path == discoveryPath && discovery != nil:
		answer(w, discovery)
	case r.URL.Path == "/keys", r.URL.Path == jwksPath:
		answer(w, map[string]any{"keys": keys})
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func answer(w io.Writer, v any) {
	if err := json.NewEncoder(w).Encode(v); err != nil {
		panic(err)
	}
}

// open returns an authenticator for the service, with its clock.
func (s *identity) open(t testing.TB, change ...func(*Options)) (*Authenticator, *clock) {
	t.Helper()
	c := &clock{}
	o := Options{Address: s.URL, Clock: c.now, CacheTTL: 30 * time.Second, Timeout: time.Minute}
	for _, f := range change {
		f(&o)
	}
	a, err := New(t.Context(), o)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(a.Close)
	return a, c
}

// loaded waits until the authenticator has keys.
func loaded(t testing.TB, a *Authenticator) {
	t.Helper()
	eventually(t, "keys are loaded", func() bool { return a.keys.set.Load() != nil })
}

// eventually polls until the condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting until %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// userClaims are the claims of a good token of a person.
func userClaims() jwt.MapClaims {
	return jwt.MapClaims{
		"iss": "https://issuer.test", "sub": "alice", "owner": "acme-people", "type": "normal-user", "tenantId": "acme",
		"exp": start.Add(time.Hour).Unix(), "iat": start.Add(-time.Minute).Unix(),
		"auth_time": start.Add(-2 * time.Minute).Unix(),
	}
}

// with returns a copy of the claims with changes; nil removes a claim.
func with(claims, changes jwt.MapClaims) jwt.MapClaims {
	c := maps.Clone(claims)
	for k, v := range changes {
		c[k] = v
		if v == nil {
			delete(c, k)
		}
	}
	return c
}

// without returns a copy of the claims without some.
func without(claims jwt.MapClaims, names ...string) jwt.MapClaims {
	c := with(claims, nil)
	for _, n := range names {
		delete(c, n)
	}
	return c
}

func bearer(token string) []string { return []string{"Bearer " + token} }

func segment(s string, i int) string { return strings.Split(s, ".")[i] }
