package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func startIssuer(t *testing.T, dir string) *Issuer {
	t.Helper()
	i, err := NewIssuer(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := i.Start(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = i.Stop(context.Background()) })
	return i
}

func mint(t *testing.T, i *Issuer, r TokenRequest) string {
	t.Helper()
	token, err := i.Mint(r)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// fetch decodes the answer of a GET into v.
func fetch(t *testing.T, url string, v any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s", url, response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(v); err != nil {
		t.Fatal(err)
	}
}

// parse verifies a token the way a stranger would: by discovery and the published keys alone.
func parse(t *testing.T, issuer, token string) (jwt.MapClaims, error) {
	t.Helper()
	var discovery struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	fetch(t, issuer+"/.well-known/openid-configuration", &discovery)
	var set jwkset.JWKSMarshal
	fetch(t, discovery.Keys, &set)
	claims := jwt.MapClaims{}
	_, err := jwt.ParseWithClaims(token, claims, func(token *jwt.Token) (any, error) {
		for _, marshalled := range set.Keys {
			key, err := jwkset.NewJWKFromMarshal(marshalled, jwkset.JWKMarshalOptions{}, jwkset.JWKValidateOptions{})
			if err == nil && marshalled.KID == token.Header["kid"] {
				return key.Key(), nil
			}
		}
		return nil, errors.New("no such key")
	}, jwt.WithIssuer(discovery.Issuer), jwt.WithValidMethods([]string{"RS256"}), jwt.WithExpirationRequired())
	return claims, err
}

func TestIssuerTokens(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	i := startIssuer(t, dir)
	signedIn := time.Unix(1_700_000_000, 0)
	tests := map[string]struct {
		request TokenRequest
		want    jwt.MapClaims // without the times and the id
		ttl     time.Duration
	}{
		"defaults": {
			request: TokenRequest{Tenant: "acme"},
			want: jwt.MapClaims{
				"iss": i.URL(), "aud": "fetcher", "sub": "admin", "owner": "acme", "type": "normal-user",
				"tenantId": "acme", "role": "admin",
			},
			ttl: 24 * time.Hour,
		},
		"machine": {
			request: TokenRequest{Tenant: "globex", Role: RoleMachine, TTL: time.Minute},
			want: jwt.MapClaims{
				"iss": i.URL(), "aud": "fetcher", "sub": "machine", "type": "application",
				"tenantId": "globex", "role": "machine",
			},
			ttl: time.Minute,
		},
		"everything": {
			request: TokenRequest{
				Tenant: "acme", Role: RoleViewer, Type: "service", Subject: "s", Owner: "o",
				Permissions: []string{"fetcher:*"}, AuthTime: signedIn, TTL: time.Hour,
			},
			want: jwt.MapClaims{
				"iss": i.URL(), "aud": "fetcher", "sub": "s", "owner": "o", "type": "service",
				"tenantId": "acme", "role": "viewer", "permissions": []any{"fetcher:*"},
				"auth_time": float64(signedIn.Unix()),
			},
			ttl: time.Hour,
		},
		"no tenant": {
			request: TokenRequest{Role: RoleOperator, Owner: "o"},
			want: jwt.MapClaims{
				"iss": i.URL(), "aud": "fetcher", "sub": "operator", "owner": "o", "type": "normal-user",
				"role": "operator",
			},
			ttl: 24 * time.Hour,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claims, err := parse(t, i.URL(), mint(t, i, tt.request))
			if err != nil {
				t.Fatal(err)
			}
			issued, _ := claims["iat"].(float64)
			expires, _ := claims["exp"].(float64)
			if got := time.Duration(expires-issued) * time.Second; got != tt.ttl {
				t.Errorf("lifetime = %v, want %v", got, tt.ttl)
			}
			if _, given := tt.want["auth_time"]; !given && tt.want["type"] == "normal-user" {
				tt.want["auth_time"] = issued
			}
			ignore := cmpopts.IgnoreMapEntries(func(k string, _ any) bool { return k == "iat" || k == "exp" || k == "jti" })
			if diff := cmp.Diff(tt.want, claims, ignore); diff != "" {
				t.Errorf("claims (-want +got):\n%s", diff)
			}
		})
	}
}

func TestIssuerMintsExpiredTokens(t *testing.T) {
	t.Parallel()
	i := startIssuer(t, t.TempDir())
	_, err := parse(t, i.URL(), mint(t, i, TokenRequest{Tenant: "acme", TTL: -time.Minute}))
	if !errors.Is(err, jwt.ErrTokenExpired) || errors.Is(err, jwt.ErrTokenSignatureInvalid) {
		t.Errorf("error = %v, want an expired token", err)
	}
}

func TestIssuerRefusesUnknownRoles(t *testing.T) {
	t.Parallel()
	if _, err := startIssuer(t, t.TempDir()).Mint(TokenRequest{Role: "root"}); err == nil {
		t.Error("minted")
	}
}

func TestIssuerKeepsKeyAndAddress(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "issuer")
	if _, err := OpenIssuer(dir); !errors.Is(err, ErrNoIssuer) {
		t.Errorf("open before it exists: %v, want ErrNoIssuer", err)
	}
	i := startIssuer(t, dir)
	if err := i.Start(t.Context(), ""); !errors.Is(err, ErrRunning) {
		t.Errorf("second start: %v, want ErrRunning", err)
	}
	beside, err := OpenIssuer(dir)
	if err != nil {
		t.Fatal(err)
	}
	token := mint(t, beside, TokenRequest{Tenant: "acme"})
	if _, err := parse(t, i.URL(), token); err != nil {
		t.Errorf("token minted beside the running service: %v", err)
	}
	if err := i.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := startIssuer(t, dir)
	if diff := cmp.Diff(i.URL(), again.URL()); diff != "" {
		t.Errorf("address changed (-first +second):\n%s", diff)
	}
	if _, err := parse(t, again.URL(), token); err != nil {
		t.Errorf("token of the first run: %v", err)
	}
	for _, name := range []string{keyFile, urlFile} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
}

func TestIssuerMovesWhenItsPortIsTaken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	i := startIssuer(t, dir)
	if err := i.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	thief := listenOn(t, strings.TrimPrefix(i.URL(), "http://"))
	defer func() { _ = thief.Close() }()
	again := startIssuer(t, dir)
	if again.URL() == i.URL() {
		t.Error("the port is somebody else's")
	}
	if _, err := parse(t, again.URL(), mint(t, again, TokenRequest{Tenant: "acme"})); err != nil {
		t.Error(err)
	}
}

func TestIssuerDamagedKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, keyFile), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewIssuer(dir); err == nil {
		t.Error("a damaged key was replaced without a word")
	}
}

// ask puts a question to the service and returns the status and the answer.
func ask(t *testing.T, i *Issuer, authorization, body string) (int, bool) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, i.URL()+"/v1/authorize", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Authorized bool `json:"authorized"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return response.StatusCode, answer.Authorized
}

func TestIssuerDecidesByRole(t *testing.T) {
	t.Parallel()
	i := startIssuer(t, t.TempDir())
	rights := []string{
		"connections get", "connections post", "connections patch", "connections delete",
		"fetcher get", "fetcher post", "fetcher delete",
		"sources read", "sources sync", "sources approve", "memory read", "memory write", "memory delete",
		"environments read", "environments manage",
	}
	tests := map[string]struct {
		subject string
		want    []string
	}{
		RoleAdmin: {"acme/admin", rights},
		RoleOperator: {"acme/operator", []string{
			"connections get", "connections post", "connections patch", "fetcher get", "fetcher post",
			"sources read", "sources sync", "memory read", "memory write", "environments read",
		}},
		RoleViewer: {"acme/viewer", []string{
			"connections get", "fetcher get", "sources read", "memory read", "environments read",
		}},
		RoleMachine: {"admin/fetcher-editor-role", []string{
			"connections get", "connections post", "connections patch", "fetcher get", "fetcher post",
			"sources read", "sources sync", "memory read", "memory write", "environments read",
		}},
	}
	for role, tt := range tests {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			token := mint(t, i, TokenRequest{Tenant: "acme", Role: role})
			var got []string
			for _, right := range rights {
				resource, action, _ := strings.Cut(right, " ")
				body, err := json.Marshal(question{Subject: tt.subject, Resource: resource, Action: action, Product: "fetcher"})
				if err != nil {
					t.Fatal(err)
				}
				status, authorized := ask(t, i, token, string(body))
				if status != http.StatusOK {
					t.Errorf("%s: status %d", right, status)
				}
				if authorized {
					got = append(got, right)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("rights (-want +got):\n%s", diff)
			}
		})
	}
}

func TestIssuerQuestions(t *testing.T) {
	t.Parallel()
	i := startIssuer(t, t.TempDir())
	stranger := startIssuer(t, t.TempDir())
	user := mint(t, i, TokenRequest{Tenant: "acme"})
	machine := mint(t, i, TokenRequest{Tenant: "acme", Role: RoleMachine})
	unsigned, err := jwt.NewWithClaims(jwt.SigningMethodNone,
		jwt.MapClaims{"iss": i.URL(), "sub": "admin", "owner": "acme", "type": TypeUser, "role": RoleAdmin,
			"exp": time.Now().Add(time.Hour).Unix()}).SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	const admin = `{"sub":"acme/admin","resource":"connections","action":"get","product":"fetcher"}`
	tests := map[string]struct {
		authorization, body string
		status              int
		authorized          bool
	}{
		"bare":              {user, admin, 200, true},
		"with scheme":       {"bearer " + user, admin, 200, true},
		"another scheme":    {"Basic " + user, admin, 401, false},
		"no token":          {"", admin, 401, false},
		"expired":           {mint(t, i, TokenRequest{Tenant: "acme", TTL: -time.Minute}), admin, 401, false},
		"unsigned":          {unsigned, admin, 401, false},
		"of another issuer": {mint(t, stranger, TokenRequest{Tenant: "acme"}), admin, 401, false},
		"another's name":    {user, strings.Replace(admin, "acme/", "globex/", 1), 200, false},
		"machine as user":   {machine, admin, 200, false},
		"user as machine":   {user, strings.Replace(admin, "acme/admin", "admin/fetcher-editor-role", 1), 200, false},
		"no question":       {user, `[]`, 400, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, authorized := ask(t, i, tt.authorization, tt.body)
			if status != tt.status || authorized != tt.authorized {
				t.Errorf("answer = %d, %v, want %d, %v", status, authorized, tt.status, tt.authorized)
			}
		})
	}
}

// The clock stands still: a test that had to wait for its turn would find the token too old.
func TestIssuerAllowsForClocksThatDiffer(t *testing.T) {
	t.Parallel()
	i := startIssuer(t, t.TempDir())
	at := time.Now()
	i.now = func() time.Time { return at }
	token := mint(t, i, TokenRequest{Tenant: "acme", TTL: -time.Second})
	if status, authorized := ask(t, i, token, `{"sub":"acme/admin","resource":"connections","action":"get","product":"fetcher"}`); status != 200 || !authorized {
		t.Errorf("answer = %d, %v, want 200, true", status, authorized)
	}
}

// What a role may do must not depend on where it is decided.
func TestPermissionsAgreeWithDecisions(t *testing.T) {
	t.Parallel()
	for _, role := range []string{RoleAdmin, RoleOperator, RoleViewer, RoleMachine} {
		for _, permission := range PermissionsOf(role) {
			parts := strings.Split(permission, ":")
			if len(parts) == 3 && !may(role, parts[1], parts[2]) {
				t.Errorf("%s holds %s and may not use it", role, permission)
			}
		}
	}
	if got := PermissionsOf("nobody"); got != nil {
		t.Errorf("an unknown role holds %v", got)
	}
}
