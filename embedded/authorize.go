package embedded

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// handler serves discovery, the key set and decisions.
func (i *Issuer) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", i.discovery)
	mux.HandleFunc("GET /.well-known/jwks.json", i.keys)
	mux.HandleFunc("POST /v1/authorize", i.authorize)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return mux
}

func (i *Issuer) discovery(w http.ResponseWriter, _ *http.Request) {
	url := i.URL()
	writeJSON(w, http.StatusOK, map[string]any{
		"issuer":                                url,
		"jwks_uri":                              url + "/.well-known/jwks.json",
		"response_types_supported":              []string{"token"},
		"subject_types_supported":               []string{"public"},
		"id_token_signing_alg_values_supported": []string{jwt.SigningMethodRS256.Alg()},
	})
}

func (i *Issuer) keys(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, json.RawMessage(i.jwks))
}

// question is the body of /v1/authorize.
type question struct {
	Subject  string `json:"sub"`
	Resource string `json:"resource"`
	Action   string `json:"action"`
	Product  string `json:"product"`
}

func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	claims, err := i.verify(r.Header.Get("Authorization"))
	if err != nil {
		writeJSON(w, http.StatusUnauthorized, map[string]string{"error": "invalid token"})
		return
	}
	const maxBody = 64 << 10
	var q question
	if err := json.NewDecoder(io.LimitReader(r.Body, maxBody)).Decode(&q); err != nil {
		writeJSON(w, http.StatusBadRequest, map[string]string{"error": "body is not a question"})
		return
	}
	writeJSON(w, http.StatusOK, map[string]bool{"authorized": decide(claims, q)})
}

// clockSkew is what the gateway allows too: it would be odd to refuse there what passed here.
const clockSkew = 30 * time.Second

// verify accepts a bare token, as the gateway sends it, and one after "Bearer".
func (i *Issuer) verify(header string) (jwt.MapClaims, error) {
	token := header
	if scheme, rest, found := strings.Cut(header, " "); found {
		if !strings.EqualFold(scheme, "Bearer") {
			return nil, errors.New("unknown scheme")
		}
		token = strings.TrimSpace(rest)
	}
	claims := jwt.MapClaims{}
	_, err := jwt.ParseWithClaims(token, claims,
		func(*jwt.Token) (any, error) { return &i.key.PublicKey, nil },
		jwt.WithValidMethods([]string{jwt.SigningMethodRS256.Alg()}),
		jwt.WithIssuer(i.URL()), jwt.WithExpirationRequired(), jwt.WithTimeFunc(i.now), jwt.WithLeeway(clockSkew))
	if err != nil {
		return nil, err
	}
	return claims, nil
}

// decide answers for the subject of the token only: a question in another name is a mistake of the asker.
func decide(claims jwt.MapClaims, q question) bool {
	text := func(name string) string { s, _ := claims[name].(string); return s }
	if text("type") != TypeUser {
		if !strings.HasPrefix(q.Subject, "admin/") || !strings.HasSuffix(q.Subject, "-editor-role") {
			return false
		}
		return may(RoleMachine, q.Resource, q.Action)
	}
	if q.Subject != text("owner")+"/"+text("sub") {
		return false
	}
	return may(text("role"), q.Resource, q.Action)
}

// may is the table of development rights.
func may(role, resource, action string) bool {
	switch role {
	case RoleAdmin:
		return true
	case RoleOperator, RoleMachine:
		return reads(action) || writes(resource, action)
	case RoleViewer:
		return reads(action)
	default:
		return false
	}
}

func reads(action string) bool { return action == "get" || action == "read" }

func writes(resource, action string) bool {
	switch resource + ":" + action {
	case "connections:post", "connections:patch", "fetcher:post", "sources:sync", "memory:write":
		return true
	default:
		return false
	}
}

// PermissionsOf lists what a role may do in the form that tokens carry where they are decided from their claims.
func PermissionsOf(role string) []string {
	viewer := []string{
		"fetcher:connections:get", "fetcher:fetcher:get",
		"katara:environments:read", "katara:sources:read", "katara:memory:read",
	}
	switch role {
	case RoleAdmin:
		return []string{"fetcher:*", "katara:*"}
	case RoleOperator, RoleMachine:
		return append(viewer, "fetcher:connections:post", "fetcher:connections:patch", "fetcher:fetcher:post",
			"katara:sources:sync", "katara:memory:write")
	case RoleViewer:
		return viewer
	default:
		return nil
	}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}
