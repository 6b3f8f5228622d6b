package connections

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// Input is a connection as a caller describes it. Absent and null members are nil. It prints without its members.
type Input struct {
	ConfigName   *string
	Kind         *string // the member "type"
	Host         *string
	Port         *int
	DatabaseName *string
	Schema       *string
	UserName     *string
	Password     *string
	SSL          *SSLInput
	Metadata     []byte // JSON text; nil when absent
}

// SSLInput is the member "ssl". CA, Cert and Key are PEM.
type SSLInput struct {
	Mode, CA, Cert, Key *string
}

const redactedInput = "connection input [secret]"

// String keeps the members, a password among them, out of formatted text.
func (in Input) String() string { return redactedInput }

// Format keeps the members out of every verb.
func (in Input) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redactedInput) }

// LogValue keeps the members out of logs.
func (in Input) LogValue() slog.Value { return slog.StringValue(redactedInput) }

// Format keeps keys out of every verb.
func (in SSLInput) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redactedInput) }

// LogValue keeps keys out of logs.
func (in SSLInput) LogValue() slog.Value { return slog.StringValue(redactedInput) }

// normalized returns a copy with strings trimmed, except the password; a null metadata and an ssl without members are
// absent.
func (in Input) normalized() Input {
	for _, p := range []**string{&in.ConfigName, &in.Kind, &in.Host, &in.DatabaseName, &in.Schema, &in.UserName} {
		*p = trimmed(*p)
	}
	if string(bytes.TrimSpace(in.Metadata)) == "null" || len(in.Metadata) == 0 {
		in.Metadata = nil
	}
	if in.SSL != nil {
		ssl := SSLInput{
			Mode: trimmed(in.SSL.Mode), CA: trimmed(in.SSL.CA), Cert: trimmed(in.SSL.Cert), Key: trimmed(in.SSL.Key),
		}
		in.SSL = &ssl
		if ssl == (SSLInput{}) {
			in.SSL = nil
		}
	}
	return in
}

func trimmed(s *string) *string {
	if s == nil {
		return nil
	}
	t := strings.TrimSpace(*s)
	return &t
}

// blank reports whether a member counts as missing.
func blank(s *string) bool { return s == nil || strings.TrimSpace(*s) == "" }
