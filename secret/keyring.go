// Package secret owns the key ring: every key the product uses is derived here from a versioned master key, and every
// secret at rest is sealed and opened here.
//
// It touches nothing but memory. It promises that a derivation never changes for a given master key (stored secrets and
// delivered signatures depend on it), that a sealed value opens only in the scope it was sealed for, and that neither
// keys nor plaintexts show in errors or printed values.
package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"

	"filippo.io/age"
)

// ErrUnknownKey says that no key of the version asked for is in the ring. The error that wraps it names the version.
var ErrUnknownKey = errors.New("unknown key version")

// The labels separate the derived keys from each other. Changing one makes everything made under it unreadable.
const (
	labelCredentials = "fetcher/v1/credentials" //nolint:gosec // a label, not a credential
	labelInternal    = "fetcher/v1/internal-hmac"
	labelExternal    = "fetcher/v1/external-hmac"
	labelResults     = "fetcher/v1/result-identity"
)

const derivedBytes = 32

// Keyring holds the current master key and the retired ones that stay readable. It is immutable and safe for
// concurrent use, and prints nothing of its keys.
type Keyring struct {
	current int
	keys    map[int]ringKey
}

type ringKey struct {
	master      []byte
	credentials cipher.AEAD
}

// NewKeyring returns a ring that seals under current and opens under all keys given. Versions must differ.
func NewKeyring(current Key, retired ...Key) (*Keyring, error) {
	ring := &Keyring{current: current.Version, keys: make(map[int]ringKey, 1+len(retired))}
	for _, k := range slices.Concat([]Key{current}, retired) {
		if err := k.validate(); err != nil {
			return nil, fmt.Errorf("key ring: %w", err)
		}
		if _, ok := ring.keys[k.Version]; ok {
			return nil, fmt.Errorf("key ring: version %d is given twice", k.Version)
		}
		aead, err := newAEAD(k.Bytes)
		if err != nil {
			return nil, fmt.Errorf("key ring: version %d: %w", k.Version, err)
		}
		ring.keys[k.Version] = ringKey{master: slices.Clone(k.Bytes), credentials: aead}
	}
	return ring, nil
}

func newAEAD(master []byte) (cipher.AEAD, error) {
	key, err := derive(master, labelCredentials)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// CurrentVersion is the version that Seal uses.
func (k *Keyring) CurrentVersion() int { return k.current }

// Versions lists the versions that can be opened, ascending.
func (k *Keyring) Versions() []int { return slices.Sorted(maps.Keys(k.keys)) }

// ExternalHMACKey returns the 32-byte key whose signatures a tenant can check. ErrUnknownKey when the version is not
// in the ring.
func (k *Keyring) ExternalHMACKey(version int, tenant string) ([]byte, error) {
	return k.tenantKey(version, labelExternal, tenant)
}

// InternalHMACKey returns the 32-byte key of signatures that never leave the deployment. ErrUnknownKey when the
// version is not in the ring.
func (k *Keyring) InternalHMACKey(version int, tenant string) ([]byte, error) {
	return k.tenantKey(version, labelInternal, tenant)
}

// ResultIdentity returns the age identity a tenant's results are encrypted to: the same one for the same master key
// and tenant, always. ErrUnknownKey when the version is not in the ring.
func (k *Keyring) ResultIdentity(version int, tenant string) (*age.X25519Identity, error) {
	key, err := k.tenantKey(version, labelResults, tenant)
	if err != nil {
		return nil, err
	}
	id, err := age.ParseX25519Identity(encodeIdentity(key))
	if err != nil {
		return nil, errors.New("result identity: the derived key was refused") // the cause might quote the key
	}
	return id, nil
}

func (k *Keyring) tenantKey(version int, label, tenant string) ([]byte, error) {
	key, ok := k.keys[version]
	if !ok {
		return nil, unknownKey(version)
	}
	if tenant == "" {
		return nil, errors.New("derive: no tenant given")
	}
	return derive(key.master, label, tenant)
}

// derive expands the master key under a label and the strings it is bound to. The master key is random, so that the
// salt can stay empty (RFC 5869, 3.1).
func derive(master []byte, label string, bound ...string) ([]byte, error) {
	info := appendString(nil, label)
	for _, s := range bound {
		info = appendString(info, s)
	}
	key, err := hkdf.Key(sha256.New, master, nil, string(info), derivedBytes)
	if err != nil {
		return nil, fmt.Errorf("derive: %w", err)
	}
	return key, nil
}

// appendString appends s behind its length, so that no two lists of strings give the same bytes.
func appendString(dst []byte, s string) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(len(s)))
	return append(dst, s...)
}

func unknownKey(version int) error { return fmt.Errorf("%w %d", ErrUnknownKey, version) }

// String names the versions only.
func (k *Keyring) String() string {
	return fmt.Sprintf("key ring %v, current %d %s", k.Versions(), k.current, redacted)
}

// Format keeps the keys out of every verb.
func (k *Keyring) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }

// LogValue keeps the keys out of logs.
func (k *Keyring) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText keeps the keys out of JSON and every other encoding of text.
func (k *Keyring) MarshalText() ([]byte, error) { return []byte(k.String()), nil }
