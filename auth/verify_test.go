package auth

import (
	"crypto/elliptic"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fetcherhq/fetcher/problem"
)

func b64(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// loose returns the token spelt otherwise: with bits set that the last character of the signature does not need. A
// signature of 256 bytes leaves four of them.
func loose(token string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := len(token) - 1
	return token[:last] + string(alphabet[strings.IndexByte(alphabet, token[last])|1])
}

func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	good, stranger := rsaSigner("k1", 0), rsaSigner("k1", 1)
	id := newIdentity(t, good)
	a, _ := id.open(t)
	loaded(t, a)

	sign := func(claims jwt.MapClaims) string { return good.sign(t, claims, nil) }
	at := func(d time.Duration) int64 { return start.Add(d).Unix() }
	base := userClaims()
	valid := sign(base)
	none, err := jwt.NewWithClaims(jwt.SigningMethodNone, base).SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	hmac := func(secret []byte, alg *jwt.SigningMethodHMAC) string {
		token := jwt.NewWithClaims(alg, base)
		token.Header["kid"] = "k1"
		s, signErr := token.SignedString(secret)
		if signErr != nil {
			t.Fatal(signErr)
		}
		return s
	}
	pkix, err := x509.MarshalPKIXPublicKey(good.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pkix})
	swapped := segment(valid, 0) + "." + segment(sign(with(base, jwt.MapClaims{"sub": "mallory"})), 1) + "." + segment(valid, 2)

	tests := map[string]struct {
		token string
		why   refusal
	}{
		"alg none":                  {none, errAlgorithm},
		"alg None":                  {b64(`{"alg":"None","kid":"k1"}`) + "." + segment(valid, 1) + ".", errAlgorithm},
		"alg none, old signature":   {b64(`{"alg":"none"}`) + "." + segment(valid, 1) + "." + segment(valid, 2), errAlgorithm},
		"HMAC with public key, DER": {hmac(pkix, jwt.SigningMethodHS256), errAlgorithm},
		"HMAC with public key, PEM": {hmac(publicPEM, jwt.SigningMethodHS512), errAlgorithm},
		"algorithm unknown":         {b64(`{"alg":"XX256","kid":"k1"}`) + "." + segment(valid, 1) + "." + segment(valid, 2), errAlgorithm},
		"algorithm absent":          {b64(`{"kid":"k1"}`) + "." + segment(valid, 1) + "." + segment(valid, 2), errAlgorithm},
		"algorithm a number":        {b64(`{"alg":5,"kid":"k1"}`) + "." + segment(valid, 1) + "." + segment(valid, 2), errAlgorithm},
		"kid a number":              {good.sign(t, base, map[string]any{"kid": 7}), errAlgorithm},
		"signed by another":         {stranger.sign(t, base, nil), errSignature},
		"other claims":              {swapped, errSignature},
		"signature cut":             {valid[:len(valid)-2], errSignature},
		"signature empty":           {segment(valid, 0) + "." + segment(valid, 1) + ".", errSignature},
		"unknown kid":               {good.sign(t, base, map[string]any{"kid": "nobody"}), errUnknownKey},
		"expired":                   {sign(with(base, jwt.MapClaims{"exp": at(-leeway)})), errExpired},
		"no exp":                    {sign(without(base, "exp")), errClaims},
		"exp zero":                  {sign(with(base, jwt.MapClaims{"exp": 0})), errClaims},
		"exp a string":              {sign(with(base, jwt.MapClaims{"exp": "2099-01-01"})), errClaims},
		"exp beyond all calendars":  {sign(with(base, jwt.MapClaims{"exp": 1e300})), ""},
		"exp after the year 9999":   {sign(with(base, jwt.MapClaims{"exp": int64(maxTime + 1)})), errClaims},
		"not yet valid":             {sign(with(base, jwt.MapClaims{"nbf": at(leeway + time.Second)})), errNotYet},
		"wrong issuer":              {sign(with(base, jwt.MapClaims{"iss": "https://issuer.test/"})), errIssuer},
		"no issuer":                 {sign(without(base, "iss")), errIssuer},
		"issuer in other case":      {sign(with(without(base, "iss"), jwt.MapClaims{"ISS": "https://issuer.test"})), errIssuer},
		"no subject":                {sign(without(base, "sub")), errSubject},
		"subject empty":             {sign(with(base, jwt.MapClaims{"sub": ""})), errSubject},
		"subject a number":          {sign(with(base, jwt.MapClaims{"sub": 5})), errSubject},
		"person without owner":      {sign(without(base, "owner")), errOwner},
		"person with empty owner":   {sign(with(base, jwt.MapClaims{"owner": ""})), errOwner},
		"crit":                      {good.sign(t, base, map[string]any{"crit": []string{"b64"}, "b64": false}), errCritical},
		"crit empty":                {good.sign(t, base, map[string]any{"crit": []string{}}), errCritical},
		"crit malformed":            {good.sign(t, base, map[string]any{"crit": "exp"}), errCritical},
		"crit unknown kid":          {good.sign(t, base, map[string]any{"crit": []string{"x"}, "kid": "nobody"}), errCritical},
		"empty":                     {"", errMalformed},
		"one part":                  {"abc", errMalformed},
		"two parts":                 {"abc.def", errMalformed},
		"four parts":                {valid + ".x", errMalformed},
		"JWE":                       {"a.b.c.d.e", errMalformed},
		"line end inside":           {valid[:20] + "\n" + valid[20:], errMalformed},
		"trailing bits":             {loose(valid), errMalformed},
		"padding":                   {valid + "=", errMalformed},
		"header not JSON":           {b64("x") + "." + segment(valid, 1) + "." + segment(valid, 2), errMalformed},
		"header null":               {b64("null") + "." + segment(valid, 1) + "." + segment(valid, 2), errAlgorithm},
		"claims not JSON":           {segment(valid, 0) + "." + b64("{") + "." + segment(valid, 2), errMalformed},
		"claims an array":           {segment(valid, 0) + "." + b64("[]") + "." + segment(valid, 2), errMalformed},
		"too long":                  {valid + strings.Repeat("A", maxTokenBytes), errMalformed},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := a.Verify(t.Context(), tt.token)
			if p != nil || problem.CodeOf(err) != problem.Unauthenticated {
				t.Fatalf("Verify = %v, %v", p, err)
			}
			if errors.Is(err, ErrNoToken) {
				t.Error("an invalid token counts as a missing one")
			}
			var why refusal
			if !errors.As(err, &why) || tt.why != "" && why != tt.why {
				t.Errorf("refused for %q, want %q", why, tt.why)
			}
			var e *problem.Error
			if errors.As(err, &e); e.Detail != detailInvalid {
				t.Errorf("detail = %q", e.Detail)
			}
			if len(tt.token) > 20 && strings.Contains(err.Error(), tt.token[:20]) {
				t.Errorf("the error quotes the token: %v", err)
			}
		})
	}
}

func TestVerifyAccepts(t *testing.T) {
	t.Parallel()
	good := rsaSigner("k1", 0)
	id := newIdentity(t, good)
	a, _ := id.open(t)
	base := userClaims()
	want := Principal{
		Subject: "acme-people/alice", Account: "acme-people/alice", Kind: KindUser, TenantID: "acme",
		AuthenticatedAt: start.Add(-2 * time.Minute), ExpiresAt: start.Add(time.Hour),
	}
	machine := want
	machine.Subject, machine.Account, machine.Kind = "robot", "", KindMachine
	but := func(change func(*Principal)) Principal {
		p := want
		change(&p)
		return p
	}
	tenant := func(id string) Principal { return but(func(p *Principal) { p.TenantID = id }) }
	const upper, lower = "0190B3C4-AAAA-7BBB-8CCC-0123456789AB", "0190b3c4-aaaa-7bbb-8ccc-0123456789ab"

	tests := map[string]struct {
		claims jwt.MapClaims
		want   Principal
	}{
		"person":  {base, want},
		"machine": {with(base, jwt.MapClaims{"type": "application", "sub": "robot"}), machine},
		"no type": {with(base, jwt.MapClaims{"type": nil, "sub": "robot", "owner": nil}), machine},
		"type in other case": {
			with(base, jwt.MapClaims{"type": "Normal-User", "sub": "robot"}), machine,
		},
		"expired within leeway": {
			with(base, jwt.MapClaims{"exp": start.Add(time.Second - leeway).Unix()}),
			but(func(p *Principal) { p.ExpiresAt = start.Add(time.Second - leeway) }),
		},
		"not yet valid within leeway": {with(base, jwt.MapClaims{"nbf": start.Add(leeway).Unix()}), want},
		"no auth_time": {
			without(base, "auth_time"), but(func(p *Principal) { p.AuthenticatedAt = start.Add(-time.Minute) }),
		},
		"no times": {
			without(base, "auth_time", "iat"), but(func(p *Principal) { p.AuthenticatedAt = time.Time{} }),
		},
		"permissions and scope": {
			with(base, jwt.MapClaims{"scope": " a  b ", "permissions": []any{"fetcher:*", 5, "", nil, "x"}}),
			but(func(p *Principal) { p.Permissions = []string{"a", "b", "fetcher:*", "x"} }),
		},
		"permissions of the wrong type": {with(base, jwt.MapClaims{"scope": []string{"a"}, "permissions": "b"}), want},
		"tenant_id":                     {with(base, jwt.MapClaims{"tenantId": nil, "tenant_id": "globex"}), tenant("globex")},
		"both tenants":                  {with(base, jwt.MapClaims{"tenant_id": "globex"}), want},
		"tenant malformed, other good":  {with(base, jwt.MapClaims{"tenantId": "a b", "tenant_id": "globex"}), tenant("")},
		"tenant in other case":          {with(base, jwt.MapClaims{"tenantId": nil, "TENANTID": "globex"}), tenant("")},
		"tenant UUID":                   {with(base, jwt.MapClaims{"tenantId": upper}), tenant(lower)},
		"tenant almost UUID":            {with(base, jwt.MapClaims{"tenantId": "X" + upper[1:]}), tenant("X" + upper[1:])},
		"tenant undashed":               {with(base, jwt.MapClaims{"tenantId": "0190B3C4AAAA"}), tenant("0190B3C4AAAA")},
		"tenant absent":                 {without(base, "tenantId"), tenant("")},
		"tenant empty":                  {with(base, jwt.MapClaims{"tenantId": ""}), tenant("")},
		"tenant a number":               {with(base, jwt.MapClaims{"tenantId": 5}), tenant("")},
		"tenant a path":                 {with(base, jwt.MapClaims{"tenantId": "../acme"}), tenant("")},
		"tenant with NUL":               {with(base, jwt.MapClaims{"tenantId": "acme\x00"}), tenant("")},
		"tenant not ASCII":              {with(base, jwt.MapClaims{"tenantId": "ácme"}), tenant("")},
		"tenant starts with dash":       {with(base, jwt.MapClaims{"tenantId": "-acme"}), tenant("")},
		"tenant longest": {
			with(base, jwt.MapClaims{"tenantId": strings.Repeat("a", 128)}), tenant(strings.Repeat("a", 128)),
		},
		"tenant too long": {with(base, jwt.MapClaims{"tenantId": strings.Repeat("a", 129)}), tenant("")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			token := good.sign(t, tt.claims, nil)
			for _, round := range []string{"verified", "cached"} {
				got, err := a.Verify(t.Context(), token)
				if err != nil {
					t.Fatalf("%s: %v", round, err)
				}
				tt.want.Token = token
				if diff := cmp.Diff(tt.want, *got, cmpopts.IgnoreUnexported(Principal{})); diff != "" {
					t.Errorf("%s (-want +got):\n%s", round, diff)
				}
			}
		})
	}
}

func TestVerifyAlgorithms(t *testing.T) {
	t.Parallel()
	signers := make([]signer, 0, len(algorithms()))
	for _, alg := range []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"} {
		signers = append(signers, signer{kid: alg, alg: alg, key: rsaKeys()[0]})
	}
	signers = append(signers,
		ecSigner(t, "ES256", "ES256", elliptic.P256()), ecSigner(t, "ES384", "ES384", elliptic.P384()),
		ecSigner(t, "ES512", "ES512", elliptic.P521()), edSigner(t, "EdDSA"))
	id := newIdentity(t, signers...)
	a, _ := id.open(t)
	loaded(t, a)
	for _, s := range signers {
		for _, named := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s named=%v", s.alg, named), func(t *testing.T) {
				t.Parallel()
				header := map[string]any{}
				if !named {
					header["kid"] = nil
				}
				if _, err := a.Verify(t.Context(), s.sign(t, userClaims(), header)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	if len(signers) != len(algorithms()) {
		t.Errorf("tested %d algorithms of %d", len(signers), len(algorithms()))
	}
}

func TestVerifyAudience(t *testing.T) {
	t.Parallel()
	good := rsaSigner("k1", 0)
	id := newIdentity(t, good)
	a, _ := id.open(t, func(o *Options) { o.Audience = "fetcher-api" })
	for name, tt := range map[string]struct {
		aud any
		ok  bool
	}{
		"right":  {"fetcher-api", true},
		"listed": {[]string{"other", "fetcher-api"}, true},
		"wrong":  {"other", false},
		"prefix": {"fetcher", false},
		"absent": {nil, false},
		"empty":  {[]string{}, false},
		"number": {5, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := a.Verify(t.Context(), good.sign(t, with(userClaims(), jwt.MapClaims{"aud": tt.aud}), nil))
			if (err == nil) != tt.ok || err != nil && problem.CodeOf(err) != problem.Unauthenticated {
				t.Errorf("err = %v, want ok = %v", err, tt.ok)
			}
		})
	}
}

func TestVerifyTenantClaimOption(t *testing.T) {
	t.Parallel()
	good := rsaSigner("k1", 0)
	id := newIdentity(t, good)
	a, _ := id.open(t, func(o *Options) { o.TenantClaim = "org" })
	for claim, want := range map[string]string{"org": "globex", "tenantId": "", "tenant_id": ""} {
		claims := with(without(userClaims(), "tenantId"), jwt.MapClaims{claim: "globex"})
		p, err := a.Verify(t.Context(), good.sign(t, claims, nil))
		if err != nil || p.TenantID != want {
			t.Errorf("claim %s: tenant = %q, %v; want %q", claim, p.TenantID, err, want)
		}
	}
}

func TestVerifiedTokenEndsWithExp(t *testing.T) {
	t.Parallel()
	good := rsaSigner("k1", 0)
	id := newIdentity(t, good)
	a, c := id.open(t)
	loaded(t, a)
	token := good.sign(t, with(userClaims(), jwt.MapClaims{"exp": start.Add(20 * time.Second).Unix()}), nil)
	// Within exp from the cache, within leeway by verifying, then no more.
	for _, tt := range []struct {
		after time.Duration
		ok    bool
	}{{0, true}, {19 * time.Second, true}, {49 * time.Second, true}, {50 * time.Second, false}, {time.Hour, false}} {
		c.offset.Store(int64(tt.after))
		if _, err := a.Verify(t.Context(), token); (err == nil) != tt.ok {
			t.Errorf("after %s: err = %v, want ok = %v", tt.after, err, tt.ok)
		}
	}
}

func TestVerifiedTokenIsVerifiedAgainAfterAMinute(t *testing.T) {
	t.Parallel()
	good := rsaSigner("k1", 0)
	id := newIdentity(t, good)
	a, c := id.open(t)
	loaded(t, a)
	token := good.sign(t, userClaims(), nil)
	verify := func() *Principal {
		t.Helper()
		p, err := a.Verify(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := verify()
	c.advance(tokenLife - time.Nanosecond)
	if verify() != first {
		t.Error("verified again before its time")
	}
	c.advance(time.Nanosecond)
	if verify() == first {
		t.Error("believed for more than a minute")
	}
}

func TestPrincipalHidesItsToken(t *testing.T) {
	t.Parallel()
	p := &Principal{Subject: "robot", Kind: KindMachine, Token: "canary", seal: seal{of: "canary"}}
	for _, s := range []string{
		fmt.Sprint(p), fmt.Sprintf("%v %+v %#v %s", p, p, p, p), fmt.Sprintf("%v %+v %#v", *p, *p, *p), p.LogValue().String(),
	} {
		if strings.Contains(s, "canary") || !strings.Contains(s, "robot") {
			t.Errorf("printed as %q", s)
		}
	}
}

func FuzzVerify(f *testing.F) {
	good := rsaSigner("k1", 0)
	id := newIdentity(f, good)
	a, _ := id.open(f)
	loaded(f, a)
	valid := good.sign(f, userClaims(), nil)
	f.Add(valid)
	f.Add(good.sign(f, userClaims(), map[string]any{"kid": nil}))
	f.Add(good.sign(f, userClaims(), map[string]any{"crit": 1}))
	f.Add("..")
	f.Add(b64(`{"alg":"none"}`) + "." + b64(`{"sub":"x"}`) + ".")
	f.Add(b64(`{"alg":"RS256","kid":null}`) + "." + b64(`{"exp":1e999}`) + ".AAAA")
	want, err := a.Verify(f.Context(), valid)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, token string) {
		p, err := a.Verify(t.Context(), token)
		switch {
		case err != nil:
			if problem.CodeOf(err) != problem.Unauthenticated {
				t.Fatalf("Verify(%q): %v", token, err)
			}
		case p.Subject != want.Subject || p.TenantID != want.TenantID:
			t.Fatalf("Verify(%q) = %v: nobody signed that", token, p)
		}
	})
}
