package auth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/MicahParks/jwkset"
)

const (
	// maxKeys bounds a key set: a token without kid is tried against each.
	maxKeys = 100
	// minRSABits is what RFC 7518 demands of keys for RS and PS.
	minRSABits = 2048
)

// keySet is one answer of the identity service. It is immutable.
type keySet struct {
	keys       []jwkset.JWK
	prints     map[[sha256.Size]byte]bool // what identifies each key
	issuer     string                     // empty: not known
	generation uint64                     // changes when a key goes or the issuer changes
}

// newKeySet makes the set that follows old, which may be nil.
func newKeySet(keys []jwkset.JWK, issuer string, old *keySet) (*keySet, error) {
	s := &keySet{keys: keys, issuer: issuer, prints: make(map[[sha256.Size]byte]bool, len(keys)), generation: 1}
	for _, k := range keys {
		id, err := fingerprint(k)
		if err != nil {
			return nil, err
		}
		s.prints[id] = true
	}
	if old != nil {
		s.generation = old.generation
		if issuer != old.issuer || !s.holdsAll(old) {
			s.generation++
		}
	}
	return s, nil
}

func (s *keySet) holdsAll(old *keySet) bool {
	for id := range old.prints {
		if !s.prints[id] {
			return false
		}
	}
	return true
}

// find returns the first key with the id.
func (s *keySet) find(kid string) (jwkset.JWK, bool) {
	if s == nil {
		return jwkset.JWK{}, false
	}
	i := slices.IndexFunc(s.keys, func(k jwkset.JWK) bool { return k.Marshal().KID == kid })
	if i < 0 {
		return jwkset.JWK{}, false
	}
	return s.keys[i], true
}

// fingerprint identifies a key by all that decides which tokens it verifies.
func fingerprint(k jwkset.JWK) ([sha256.Size]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(k.Key())
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("fingerprint key: %w", err)
	}
	m := k.Marshal()
	head := fmt.Appendf(nil, "%q %q ", m.KID, m.ALG)
	return sha256.Sum256(append(head, der...)), nil
}

var (
	errNotKeySet   = errors.New("answer is not a key set")
	errTooManyKeys = errors.New("key set is too large")
)

// parseKeySet returns the keys of a JWK Set that can verify tokens, and how many others it has: keys for encryption,
// shared ones, weak ones and those that don't parse are left out, so that one odd key does not take the others along.
func parseKeySet(body []byte) (keys []jwkset.JWK, skipped int, err error) {
	var set struct {
		Keys *[]json.RawMessage `json:"keys"`
	}
	if json.Unmarshal(body, &set) != nil || set.Keys == nil {
		return nil, 0, errNotKeySet
	}
	if len(*set.Keys) > maxKeys {
		return nil, 0, errTooManyKeys
	}
	for _, raw := range *set.Keys {
		// Without the private option, private parts are ignored and shared keys refused.
		k, err := jwkset.NewJWKFromRawJSON(raw, jwkset.JWKMarshalOptions{}, jwkset.JWKValidateOptions{})
		if err != nil || !usable(k) {
			skipped++
			continue
		}
		keys = append(keys, k)
	}
	return keys, skipped, nil
}

// usable reports whether tokens may be verified with the key.
func usable(k jwkset.JWK) bool {
	m := k.Marshal()
	if m.USE == jwkset.UseEnc {
		return false
	}
	if len(m.KEYOPS) > 0 && !slices.Contains(m.KEYOPS, jwkset.KeyOpsVerify) {
		return false
	}
	if m.ALG != "" && !slices.Contains(algorithms(), m.ALG.String()) {
		return false
	}
	switch key := k.Key().(type) {
	case *rsa.PublicKey:
		return key.N.BitLen() >= minRSABits
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	default:
		return false
	}
}
