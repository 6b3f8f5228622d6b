package testkit

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"net/http"
	"slices"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
)

type signingKey struct {
	id     string
	alg    string
	signer crypto.Signer
}

// newSigningKey makes a key for one of RS, PS, ES 256 to 512 and EdDSA.
func newSigningKey(alg string) (*signingKey, error) {
	var signer crypto.Signer
	var err error
	switch alg {
	case "RS256", "RS384", "RS512", "PS256", "PS384", "PS512":
		signer, err = rsa.GenerateKey(rand.Reader, 2048)
	case "ES256":
		signer, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ES384":
		signer, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ES512":
		signer, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "EdDSA":
		_, signer, err = ed25519.GenerateKey(rand.Reader)
	default:
		err = fmt.Errorf("unknown algorithm %q", alg)
	}
	if err != nil {
		return nil, err
	}
	return &signingKey{id: rand.Text(), alg: alg, signer: signer}, nil
}

func (k *signingKey) public() (jwkset.JWKMarshal, error) {
	jwk, err := jwkset.NewJWKFromKey(k.signer.Public(), jwkset.JWKOptions{
		Metadata: jwkset.JWKMetadataOptions{ALG: jwkset.ALG(k.alg), KID: k.id, USE: jwkset.UseSig},
	})
	if err != nil {
		return jwkset.JWKMarshal{}, err
	}
	return jwk.Marshal(), nil
}

// AddKey publishes one more key, of algorithm RS256, PS256, ES256, … or EdDSA, signs with it from now on and
// returns its id.
func (i *IdentityService) AddKey(alg string) string {
	i.t.Helper()
	key, err := newSigningKey(alg)
	if err != nil {
		i.t.Fatalf("testkit: identity service: %v", err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = append(i.keys, key)
	return key.id
}

// Rotate replaces all published keys by a new one and returns its id.
func (i *IdentityService) Rotate(alg string) string {
	i.t.Helper()
	i.mu.Lock()
	i.withdrawn = append(i.withdrawn, i.keys...)
	i.keys = nil
	i.mu.Unlock()
	return i.AddKey(alg)
}

// Withdraw takes one key out of the key set. Token can still sign with it.
func (i *IdentityService) Withdraw(id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for n, key := range i.keys {
		if key.id == id {
			i.withdrawn = append(i.withdrawn, key)
			i.keys = slices.Delete(i.keys, n, n+1)
			return
		}
	}
}

// find returns the key of that id, published or withdrawn; without id the one that signs.
func (i *IdentityService) find(id string) *signingKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	if id == "" && len(i.keys) > 0 {
		return i.keys[len(i.keys)-1]
	}
	for _, key := range slices.Concat(i.keys, i.withdrawn) {
		if key.id == id {
			return key
		}
	}
	return nil
}

func (i *IdentityService) answerKeys(w http.ResponseWriter, _ *http.Request) {
	i.mu.Lock()
	keys := slices.Clone(i.keys)
	i.mu.Unlock()
	set := jwkset.JWKSMarshal{Keys: []jwkset.JWKMarshal{}}
	for _, key := range keys {
		public, err := key.public()
		if err != nil {
			http.Error(w, "key", http.StatusInternalServerError)
			return
		}
		set.Keys = append(set.Keys, public)
	}
	writeJSON(w, set)
}

// method is the way to sign with the key.
func (k *signingKey) method() jwt.SigningMethod { return jwt.GetSigningMethod(k.alg) }
