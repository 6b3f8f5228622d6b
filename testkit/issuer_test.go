package testkit

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
)

// client gives every test its own connections, which it closes.
func client(t *testing.T) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func call(t *testing.T, c *http.Client, method, url, body string) (int, string, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "the token")
	response, err := c.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, string(data), err
}

// published returns the keys that the service shows.
func published(t *testing.T, c *http.Client, i *IdentityService) map[string]any {
	t.Helper()
	_, body, err := call(t, c, http.MethodGet, i.KeysURL(), "")
	if err != nil {
		t.Fatal(err)
	}
	var set jwkset.JWKSMarshal
	if err := json.Unmarshal([]byte(body), &set); err != nil {
		t.Fatal(err)
	}
	keys := map[string]any{}
	for _, marshalled := range set.Keys {
		key, err := jwkset.NewJWKFromMarshal(marshalled, jwkset.JWKMarshalOptions{}, jwkset.JWKValidateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		keys[marshalled.KID] = key.Key()
	}
	return keys
}

var errNoKey = errors.New("no such key")

// verify accepts what a correct verifier accepts.
func verify(token string, keys map[string]any, issuer string) (jwt.MapClaims, error) {
	claims := jwt.MapClaims{}
	_, err := jwt.ParseWithClaims(token, claims, func(token *jwt.Token) (any, error) {
		kid, _ := token.Header["kid"].(string)
		if key, ok := keys[kid]; ok {
			return key, nil
		}
		return nil, errNoKey
	}, jwt.WithIssuer(issuer), jwt.WithExpirationRequired(),
		jwt.WithValidMethods([]string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}))
	return claims, err
}

func TestIssuerSignsWithEveryAlgorithm(t *testing.T) {
	t.Parallel()
	i, c := Issuer(t), client(t)
	for _, alg := range []string{"RS256", "RS384", "PS256", "PS512", "ES256", "ES384", "ES512", "EdDSA"} {
		id := i.AddKey(alg)
		token := i.Token(Token{Tenant: "globex", Permissions: []string{"fetcher:*"}})
		claims, err := verify(token, published(t, c, i), i.URL())
		if err != nil {
			t.Errorf("%s: %v", alg, err)
			continue
		}
		if claims["tenantId"] != "globex" {
			t.Errorf("%s: claims = %v", alg, claims)
		}
		parsed, _, err := jwt.NewParser().ParseUnverified(token, jwt.MapClaims{})
		if err != nil || parsed.Header["alg"] != alg || parsed.Header["kid"] != id {
			t.Errorf("%s: header = %v (%v)", alg, parsed.Header, err)
		}
	}
}

func TestIssuerTokens(t *testing.T) {
	t.Parallel()
	i, c := Issuer(t), client(t)
	old := i.find("").id
	i.Rotate("ES256")
	keys := published(t, c, i)
	tests := map[string]struct {
		token Token
		want  error
	}{
		"genuine":       {Token{}, nil},
		"expired":       {Token{TTL: -time.Minute}, jwt.ErrTokenExpired},
		"wrong issuer":  {Token{Claims: map[string]any{"iss": "http://elsewhere"}}, jwt.ErrTokenInvalidIssuer},
		"no expiry":     {Token{Claims: map[string]any{"exp": nil}}, jwt.ErrTokenRequiredClaimMissing},
		"not yet":       {Token{Claims: map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}}, jwt.ErrTokenNotValidYet},
		"unsigned":      {Token{Forge: ForgeUnsigned}, jwt.ErrTokenSignatureInvalid},
		"hmac":          {Token{Forge: ForgeHMAC}, jwt.ErrTokenSignatureInvalid},
		"stranger":      {Token{Forge: ForgeStranger}, jwt.ErrTokenSignatureInvalid},
		"tampered":      {Token{Forge: ForgeTampered}, jwt.ErrTokenSignatureInvalid},
		"garbled":       {Token{Forge: ForgeSignature}, jwt.ErrTokenSignatureInvalid},
		"rotated away":  {Token{Key: old}, errNoKey},
		"bogus key id":  {Token{Header: map[string]any{"kid": "bogus"}}, errNoKey},
		"without kid":   {Token{Header: map[string]any{"kid": nil}}, errNoKey},
		"issued before": {Token{IssuedAt: time.Now().Add(-2 * time.Hour)}, jwt.ErrTokenExpired},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := verify(i.Token(tt.token), keys, i.URL())
			if !errors.Is(err, tt.want) {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
		})
	}
}

func TestIssuerKeys(t *testing.T) {
	t.Parallel()
	i, c := Issuer(t), client(t)
	first := i.find("").id
	second := i.AddKey("EdDSA")
	ids := func() map[string]bool {
		got := map[string]bool{}
		for id := range published(t, c, i) {
			got[id] = true
		}
		return got
	}
	if diff := cmp.Diff(map[string]bool{first: true, second: true}, ids()); diff != "" {
		t.Errorf("added (-want +got):\n%s", diff)
	}
	i.Withdraw(first)
	if diff := cmp.Diff(map[string]bool{second: true}, ids()); diff != "" {
		t.Errorf("withdrawn (-want +got):\n%s", diff)
	}
	third := i.Rotate("RS256")
	if diff := cmp.Diff(map[string]bool{third: true}, ids()); diff != "" {
		t.Errorf("rotated (-want +got):\n%s", diff)
	}
	if got := i.KeysFetches(); got != 3 {
		t.Errorf("fetches = %d, want 3", got)
	}
}

func TestIssuerDiscovery(t *testing.T) {
	t.Parallel()
	i, c := Issuer(t), client(t)
	url := i.URL() + "/.well-known/openid-configuration"
	_, body, err := call(t, c, http.MethodGet, url, "")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"issuer": i.URL(), "jwks_uri": i.KeysURL()}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	i.SetDiscovery(Behaviour{Status: http.StatusNotFound})
	if status, _, _ := call(t, c, http.MethodGet, url, ""); status != http.StatusNotFound {
		t.Errorf("status = %d", status)
	}
	if got := i.DiscoveryFetches(); got != 2 {
		t.Errorf("fetches = %d, want 2", got)
	}
}

func TestIssuerAuthorize(t *testing.T) {
	t.Parallel()
	i, c := Issuer(t), client(t)
	url := i.URL() + "/v1/authorize"
	const question = `{"sub":"acme/user","resource":"connections","action":"get","product":"fetcher"}`
	ask := func() string {
		t.Helper()
		_, body, err := call(t, c, http.MethodPost, url, question)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(body)
	}
	got := []string{ask()}
	i.Deny()
	got = append(got, ask())
	i.Decide(func(call AuthorizeCall) bool { return call.Action == "get" })
	got = append(got, ask())
	i.SetAuthorize(Behaviour{Body: "not JSON"})
	got = append(got, ask())
	i.SetAuthorize(Behaviour{})
	i.Allow()
	got = append(got, ask())
	want := []string{`{"authorized":true}`, `{"authorized":false}`, `{"authorized":true}`, "not JSON", `{"authorized":true}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	asked := AuthorizeCall{Token: "the token", Subject: "acme/user", Resource: "connections", Action: "get", Product: "fetcher"}
	if diff := cmp.Diff([]AuthorizeCall{asked, asked, asked, asked}, i.AuthorizeCalls()); diff != "" {
		t.Errorf("questions (-want +got):\n%s", diff)
	}
	if got := i.AuthorizeRequests(); got != 5 {
		t.Errorf("requests = %d, want 5", got)
	}
	i.SetAuthorize(Behaviour{Status: http.StatusBadGateway})
	if status, _, _ := call(t, c, http.MethodPost, url, question); status != http.StatusBadGateway {
		t.Errorf("status = %d", status)
	}
}

func TestIssuerDownAndUp(t *testing.T) {
	t.Parallel()
	i, c := Issuer(t), client(t)
	before := i.URL()
	i.Down()
	i.Down()
	if _, _, err := call(t, c, http.MethodGet, i.KeysURL(), ""); err == nil {
		t.Error("a service that is down answered")
	}
	i.Up()
	if status, _, err := call(t, c, http.MethodGet, i.KeysURL(), ""); err != nil || status != http.StatusOK {
		t.Errorf("status = %d (%v)", status, err)
	}
	if i.URL() != before {
		t.Errorf("address changed from %s to %s", before, i.URL())
	}
}

func TestIssuerHangs(t *testing.T) {
	t.Parallel()
	i, c := Issuer(t), client(t)
	ask := func(ctx context.Context) <-chan error {
		answer := make(chan error, 1)
		go func() {
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, i.URL()+"/v1/authorize", strings.NewReader(`{}`))
			if err == nil {
				var response *http.Response
				if response, err = c.Do(request); err == nil {
					err = response.Body.Close()
				}
			}
			answer <- err
		}()
		return answer
	}
	arrived := func(n int) {
		t.Helper()
		eventually(t, "the question arrives", func() bool { return i.AuthorizeRequests() == n })
	}
	i.SetAuthorize(Behaviour{Hang: true})

	ctx, cancel := context.WithCancel(t.Context())
	left := ask(ctx)
	arrived(1)
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("caller that leaves: %v", err)
	}

	released := ask(t.Context())
	arrived(2)
	i.SetAuthorize(Behaviour{})
	if err := <-released; err != nil {
		t.Errorf("released: %v", err)
	}
	if got := len(i.AuthorizeCalls()); got != 1 {
		t.Errorf("answered questions = %d, want 1", got)
	}

	i.SetAuthorize(Behaviour{Hang: true})
	cut := ask(t.Context())
	arrived(3)
	i.Down()
	if err := <-cut; err == nil {
		t.Error("a service that went down answered")
	}
}
