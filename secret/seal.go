package secret

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrTampered says that a sealed value is damaged, was sealed for another scope, or is no sealed value at all.
var ErrTampered = errors.New("sealed value is not authentic")

// Scope is where a sealed value belongs. A value opens only in the scope it was sealed for, so that a row copied to
// another tenant, object or column is worthless.
type Scope struct {
	Tenant string // canonical tenant id
	Object string // id of the row
	Field  string // name of the column
}

// A sealed value is: format (1 byte), key version (4 bytes, big endian), nonce (12 bytes), ciphertext, tag (16 bytes).
const (
	formatAESGCM = 1
	headerBytes  = 5
	nonceBytes   = 12
	tagBytes     = 16
	minSealed    = headerBytes + nonceBytes + tagBytes
)

// Seal encrypts plaintext for the scope under the current key, with AES-256-GCM and a fresh nonce: equal plaintexts
// give different outputs.
func (k *Keyring) Seal(s Scope, plaintext []byte) ([]byte, error) {
	if s.Tenant == "" || s.Object == "" || s.Field == "" {
		return nil, errors.New("seal: the scope is not complete")
	}
	out := make([]byte, headerBytes+nonceBytes, minSealed+len(plaintext))
	out[0] = formatAESGCM
	binary.BigEndian.PutUint32(out[1:headerBytes], uint32(k.current)) //nolint:gosec // NewKeyring bounds the version
	nonce := out[headerBytes:]
	_, _ = rand.Read(nonce) // crypto/rand.Read never returns an error: it ends the process instead
	return k.keys[k.current].credentials.Seal(out, nonce, plaintext, s.additionalData(out[:headerBytes])), nil
}

// Open decrypts a sealed value in its scope. Failures are ErrUnknownKey, which names the version, or ErrTampered.
func (k *Keyring) Open(s Scope, sealed []byte) ([]byte, error) {
	version, err := SealedVersion(sealed)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	key, ok := k.keys[version]
	if !ok {
		return nil, fmt.Errorf("open: %w", unknownKey(version))
	}
	header, nonce, box := sealed[:headerBytes], sealed[headerBytes:headerBytes+nonceBytes], sealed[headerBytes+nonceBytes:]
	plain, err := key.credentials.Open(nil, nonce, box, s.additionalData(header))
	if err != nil {
		return nil, fmt.Errorf("open: %w", ErrTampered)
	}
	return plain, nil
}

// SealedVersion tells which key version a sealed value names, without opening it. ErrTampered when it is none.
func SealedVersion(sealed []byte) (int, error) {
	if len(sealed) < minSealed || sealed[0] != formatAESGCM {
		return 0, ErrTampered
	}
	version := int(binary.BigEndian.Uint32(sealed[1:headerBytes]))
	if version < 1 {
		return 0, ErrTampered
	}
	return version, nil
}

// additionalData binds the header and the scope to the ciphertext.
func (s Scope) additionalData(header []byte) []byte {
	ad := make([]byte, 0, len(header)+3*8+len(s.Tenant)+len(s.Object)+len(s.Field))
	ad = append(ad, header...)
	ad = appendString(ad, s.Tenant)
	ad = appendString(ad, s.Object)
	return appendString(ad, s.Field)
}

// Reseal seals a sealed value again, in the same scope, unless it is sealed under the current key already, and reports
// whether it was not. Failures are those of Open.
func (k *Keyring) Reseal(s Scope, sealed []byte) (again []byte, changed bool, err error) {
	version, err := SealedVersion(sealed)
	if err != nil {
		return nil, false, fmt.Errorf("reseal: %w", err)
	}
	if version == k.current {
		return sealed, false, nil
	}
	plain, err := k.Open(s, sealed)
	if err != nil {
		return nil, false, fmt.Errorf("reseal: %w", err)
	}
	again, err = k.Seal(s, plain)
	return again, err == nil, err
}
