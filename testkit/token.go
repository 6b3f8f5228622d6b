package testkit

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
)

// Forgery is a way in which a token is not what it claims to be.
type Forgery string

// The forgeries. The zero value is none: the token is genuine.
const (
	ForgeUnsigned  Forgery = "none"     // alg none, no signature
	ForgeHMAC      Forgery = "hmac"     // HS256 with the public key, PEM, as the secret
	ForgeStranger  Forgery = "stranger" // signed by another key of the same kind under the published id
	ForgeTampered  Forgery = "tampered" // claims changed after signing
	ForgeSignature Forgery = "garbled"  // signature changed
)

// Token says what a token claims and how it is signed. The zero value is a genuine token of a person.
type Token struct {
	Tenant      string        // claim tenantId, "acme" by default
	Subject     string        // "user" by default
	Owner       string        // "acme" by default
	Type        string        // "normal-user" by default
	Permissions []string      // left out when empty
	IssuedAt    time.Time     // now by default
	TTL         time.Duration // an hour by default; negative for an expired token
	// Claims override all of the above; a nil value leaves the claim out.
	Claims map[string]any
	// Header overrides the token's header; a nil value leaves the member out.
	Header map[string]any
	// Key is the id of the key that signs: the newest by default, or any that was ever published.
	Key   string
	Forge Forgery
}

// Token mints a token.
func (i *IdentityService) Token(t Token) string {
	i.t.Helper()
	key := i.find(t.Key)
	if key == nil {
		i.t.Fatalf("testkit: identity service has no key %q", t.Key)
	}
	signed, err := t.sign(key, i.claims(t))
	if err != nil {
		i.t.Fatalf("testkit: mint token: %v", err)
	}
	return signed
}

func (i *IdentityService) claims(t Token) jwt.MapClaims {
	if t.IssuedAt.IsZero() {
		t.IssuedAt = time.Now()
	}
	if t.TTL == 0 {
		t.TTL = time.Hour
	}
	or := func(value, otherwise string) string {
		if value == "" {
			return otherwise
		}
		return value
	}
	claims := jwt.MapClaims{
		"iss":       i.URL(),
		"aud":       "fetcher",
		"sub":       or(t.Subject, "user"),
		"owner":     or(t.Owner, "acme"),
		"type":      or(t.Type, "normal-user"),
		"tenantId":  or(t.Tenant, "acme"),
		"iat":       t.IssuedAt.Unix(),
		"auth_time": t.IssuedAt.Unix(),
		"exp":       t.IssuedAt.Add(t.TTL).Unix(),
		"jti":       uuid.NewString(),
	}
	if len(t.Permissions) > 0 {
		claims["permissions"] = t.Permissions
	}
	override(claims, t.Claims)
	return claims
}

func override(values, by map[string]any) {
	for name, value := range by {
		if value == nil {
			delete(values, name)
			continue
		}
		values[name] = value
	}
}

func (t Token) sign(key *signingKey, claims jwt.MapClaims) (string, error) {
	method, secret := key.method(), any(key.signer)
	switch t.Forge {
	case ForgeUnsigned:
		method, secret = jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType
	case ForgeHMAC:
		public, err := x509.MarshalPKIXPublicKey(key.signer.Public())
		if err != nil {
			return "", err
		}
		method = jwt.SigningMethodHS256
		secret = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	case ForgeStranger:
		stranger, err := newSigningKey(key.alg)
		if err != nil {
			return "", err
		}
		secret = stranger.signer
	}
	token := jwt.NewWithClaims(method, claims)
	token.Header["kid"] = key.id
	override(token.Header, t.Header)
	signed, err := token.SignedString(secret)
	if err != nil {
		return "", err
	}
	return t.spoil(signed, claims)
}

// spoil applies the forgeries that change a token after it was signed.
func (t Token) spoil(signed string, claims jwt.MapClaims) (string, error) {
	parts := strings.Split(signed, ".")
	switch t.Forge {
	case ForgeTampered:
		claims["sub"] = "somebody-else"
		changed := jwt.NewWithClaims(jwt.SigningMethodNone, claims)
		text, err := changed.SigningString()
		if err != nil {
			return "", err
		}
		_, parts[1], _ = strings.Cut(text, ".")
	case ForgeSignature:
		signature, err := base64.RawURLEncoding.DecodeString(parts[2])
		if err != nil {
			return "", err
		}
		signature[len(signature)/2] ^= 1
		parts[2] = base64.RawURLEncoding.EncodeToString(signature)
	}
	return strings.Join(parts, "."), nil
}
