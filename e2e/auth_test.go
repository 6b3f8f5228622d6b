package e2e

import (
	"crypto"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

// forge replaces (or, by nil, removes) header members and claims of a token and signs it with sign, which may return nothing.
func forge(t *testing.T, token string, header, claims map[string]any, sign func(signed string) []byte) string {
	t.Helper()
	parts := strings.Split(token, ".")
	for i, changes := range []map[string]any{header, claims} {
		raw, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil {
			t.Fatal(err)
		}
		var members map[string]any
		if err = json.Unmarshal(raw, &members); err != nil {
			t.Fatal(err)
		}
		for name, value := range changes {
			members[name] = value
			if value == nil {
				delete(members, name)
			}
		}
		raw, err = json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		parts[i] = base64.RawURLEncoding.EncodeToString(raw)
	}
	signed := parts[0] + "." + parts[1]
	return signed + "." + base64.RawURLEncoding.EncodeToString(sign(signed))
}

func unsigned(string) []byte { return nil }

// tokenWith is a token of acme's administrator with other claims, signed by the identity service's own key.
func tokenWith(t *testing.T, d *blackbox.Dev, claims map[string]any) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(d.Dir, "identity", "issuer.key"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(content)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return forge(t, d.Tenant("acme").Tokens["admin"], nil, claims, func(signed string) []byte {
		sum := sha256.Sum256([]byte(signed))
		signature, err := rsa.SignPKCS1v15(nil, key.(*rsa.PrivateKey), crypto.SHA256, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		return signature
	})
}

func TestTokens(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	good := d.Tenant("acme").Tokens["admin"]
	keep := strings.Split(good, ".")[2]
	same := func(string) []byte {
		signature, err := base64.RawURLEncoding.DecodeString(keep)
		if err != nil {
			t.Fatal(err)
		}
		return signature
	}
	withHMAC := func(signed string) []byte {
		mac := hmac.New(sha256.New, []byte("secret"))
		mac.Write([]byte(signed))
		return mac.Sum(nil)
	}
	suspended := d.Tenant("globex").Tokens["admin"]
	binary.Command(t, d.Env(t), "tenant", "suspend", "globex")

	const path = "/v1/management/connections"
	for name, tc := range map[string]struct {
		token        string
		method       string
		status       int
		code         string
		authenticate string
	}{
		"good":             {good, http.MethodGet, 200, "", ""},
		"none":             {"", http.MethodGet, 401, "FET-0006", "Bearer"},
		"garbage":          {"garbage", http.MethodGet, 401, "FET-0006", `Bearer error="invalid_token"`},
		"expired":          {d.Token(t, "--tenant", "acme", "--ttl", "-1h"), http.MethodGet, 401, "FET-0006", `Bearer error="invalid_token"`},
		"other claims":     {forge(t, good, nil, map[string]any{"tenantId": "globex"}, same), http.MethodGet, 401, "FET-0006", `Bearer error="invalid_token"`},
		"wrong signature":  {good[:len(good)-8] + "AAAAAAAA", http.MethodGet, 401, "FET-0006", `Bearer error="invalid_token"`},
		"alg none":         {forge(t, good, map[string]any{"alg": "none"}, nil, unsigned), http.MethodGet, 401, "FET-0006", `Bearer error="invalid_token"`},
		"alg HS256":        {forge(t, good, map[string]any{"alg": "HS256"}, nil, withHMAC), http.MethodGet, 401, "FET-0006", `Bearer error="invalid_token"`},
		"wrong issuer":     {tokenWith(t, d, map[string]any{"iss": "http://elsewhere.example"}), http.MethodGet, 401, "FET-0006", `Bearer error="invalid_token"`},
		"no issuer":        {tokenWith(t, d, map[string]any{"iss": nil}), http.MethodGet, 401, "FET-0006", `Bearer error="invalid_token"`},
		"no subject":       {tokenWith(t, d, map[string]any{"sub": nil}), http.MethodGet, 401, "FET-0006", `Bearer error="invalid_token"`},
		"no expiry":        {tokenWith(t, d, map[string]any{"exp": nil}), http.MethodGet, 401, "FET-0006", `Bearer error="invalid_token"`},
		"no tenant":        {tokenWith(t, d, map[string]any{"tenantId": nil}), http.MethodGet, 401, "FET-1080", `Bearer error="invalid_token"`},
		"malformed tenant": {tokenWith(t, d, map[string]any{"tenantId": "../etc"}), http.MethodGet, 401, "FET-1080", `Bearer error="invalid_token"`},
		"unknown tenant":   {tokenWith(t, d, map[string]any{"tenantId": "nobody"}), http.MethodGet, 404, "FET-1081", ""},
		"suspended tenant": {suspended, http.MethodGet, 403, "FET-1083", ""},
		"viewer may not":   {d.Tenant("acme").Tokens["viewer"], http.MethodPost, 403, "FET-0007", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := blackbox.Client{Base: d.Info.API, Token: tc.token}.Do(t, tc.method, path, nil)
			var p blackbox.Problem
			if tc.code != "" {
				got.Decode(t, &p)
			}
			if got.Status != tc.status || p.Code != tc.code {
				t.Errorf("got %d %s, want %d %s: %s", got.Status, p.Code, tc.status, tc.code, got.Body)
			}
			if diff := cmp.Diff(tc.authenticate, got.Header.Get("WWW-Authenticate")); diff != "" {
				t.Error("WWW-Authenticate:", diff)
			}
		})
	}
}

func TestOtherTenantsIDsLookUnknown(t *testing.T) {
	t.Parallel()
	d := shared(t)
	globex, acme := d.Client("globex", "admin"), d.Client("acme", "admin")
	name, connection := d.Connect(t, globex, "billing")
	job := globex.Extract(t, "billing", name, "order", "*")
	globex.AwaitCompleted(t, job, blackbox.StartTimeout)

	for _, tc := range []struct{ method, path, id string }{
		{http.MethodGet, "/v1/management/connections/%", connection},
		{http.MethodPost, "/v1/management/connections/%/test", connection},
		{http.MethodGet, "/v1/management/connections/%/schema", connection},
		{http.MethodGet, "/v1/fetcher/%", job},
		{http.MethodGet, "/v1/fetcher/%/result", job},
		{http.MethodGet, "/v1/fetcher/%/events", job},
	} {
		t.Run(tc.method+tc.path, func(t *testing.T) {
			t.Parallel()
			bodies := map[string]string{}
			for _, id := range []string{tc.id, uuid.NewString()} {
				got := acme.Expect(t, http.StatusNotFound, tc.method, strings.Replace(tc.path, "%", id, 1), nil)
				var p blackbox.Problem
				got.Decode(t, &p)
				if p.Code != "FET-1001" {
					t.Errorf("code %s, want FET-1001", p.Code)
				}
				if got.Header.Get("X-Request-ID") == "" {
					t.Error("no request id")
				}
				// The instance holds the path and the request id, which differ by nature.
				bodies[strings.Replace(string(got.Body), p.Instance, "", 1)] = id
			}
			if len(bodies) != 1 {
				t.Errorf("the answers differ: %v", bodies)
			}
		})
	}
}
