package secret

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
)

// MinKeyBytes is the least length of a master key.
const MinKeyBytes = 32

const redacted = "[secret]"

// Key is one master key with the version that sealed values name it by. It never prints its bytes: not under any
// verb of fmt, not in logs, not as JSON.
type Key struct {
	Version int    // from 1; never reused for other bytes
	Bytes   []byte // at least MinKeyBytes, from a random source
}

// ParseKey decodes a master key from standard base64, padded or not. No error tells any part of the text.
func ParseKey(version int, text string) (Key, error) {
	text = strings.TrimRight(strings.TrimSpace(text), "=")
	raw, err := base64.RawStdEncoding.Strict().DecodeString(text)
	if err != nil {
		return Key{}, fmt.Errorf("parse key %d: not valid base64", version)
	}
	k := Key{Version: version, Bytes: raw}
	if err := k.validate(); err != nil {
		return Key{}, err
	}
	return k, nil
}

// GenerateKey returns a new random master key of 32 bytes in standard base64.
func GenerateKey() string {
	var b [MinKeyBytes]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never returns an error: it ends the process instead
	return base64.StdEncoding.EncodeToString(b[:])
}

func (k Key) validate() error {
	switch {
	case k.Version < 1 || int64(k.Version) > math.MaxUint32:
		return errors.New("key version must be a positive number")
	case len(k.Bytes) < MinKeyBytes:
		return fmt.Errorf("key %d: has %d bytes, needs at least %d", k.Version, len(k.Bytes), MinKeyBytes)
	}
	return nil
}

// String names the version only.
func (k Key) String() string { return fmt.Sprintf("key %d %s", k.Version, redacted) }

// Format keeps the bytes out of every verb.
func (k Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }

// LogValue keeps the bytes out of logs.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalJSON keeps the bytes out of JSON.
func (k Key) MarshalJSON() ([]byte, error) { return []byte(`"` + k.String() + `"`), nil }

// MarshalText keeps the bytes out of every other encoding of text.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }
