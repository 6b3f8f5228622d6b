package config

import (
	"fmt"
	"io"
	"log/slog"
	"strconv"
)

const masked = "******"

// Secret is a value that never prints: not under any verb of fmt, not in logs, not in an encoding, and not from within an
// unexported field, where none of its methods is called. Reveal is the only way to it. Secrets can't be compared with ==.
type Secret struct {
	_ [0]func() // the pointers would be compared, not the values

	value *string // of what a pointer in a struct points to, fmt prints the address
}

// NewSecret wraps a value.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{value: &value}
}

// Reveal returns the value in clear.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsSet reports whether there is a value.
func (s Secret) IsSet() bool { return s.value != nil }

// String masks the value.
func (s Secret) String() string {
	if !s.IsSet() {
		return ""
	}
	return masked
}

// Equal reports whether both hold the same value.
func (s Secret) Equal(other Secret) bool { return s.Reveal() == other.Reveal() }

// Format masks the value under every verb.
func (s Secret) Format(f fmt.State, verb rune) { formatMasked(f, verb, s.String()) }

// LogValue masks the value in logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText masks the value in JSON, YAML and other encodings.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText takes the value as it stands.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = NewSecret(string(text))
	return nil
}

// formatMasked prints what is left of a secret, in quotes where the verb asks for them, else as it is.
func formatMasked(f fmt.State, verb rune, text string) {
	if verb == 'q' {
		text = strconv.Quote(text)
	}
	_, _ = io.WriteString(f, text)
}
