package connections

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
)

// Member is one member of a merge patch (RFC 7396). Its zero value is one that is absent: what it names stays.
type Member[T any] struct {
	Given bool
	Value *T // nil: null, what it names goes
}

// apply sets *to unless the member is absent.
func (m Member[T]) apply(to **T) {
	if m.Given {
		*to = m.Value
	}
}

// Patch is a change of a connection. It prints without its members.
type Patch struct {
	ConfigName   Member[string]
	Kind         Member[string]
	Host         Member[string]
	Port         Member[int]
	DatabaseName Member[string]
	Schema       Member[string]
	UserName     Member[string]
	Password     Member[string]
	SSL          Member[SSLPatch]
	Metadata     []byte // JSON text; nil when absent
}

// SSLPatch is the change of the member "ssl".
type SSLPatch struct {
	Mode, CA, Cert, Key Member[string]
}

const redactedPatch = "connection patch [secret]"

// Format keeps the members, a password among them, out of every verb.
func (p Patch) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redactedPatch) }

// LogValue keeps the members out of logs.
func (p Patch) LogValue() slog.Value { return slog.StringValue(redactedPatch) }

// Format keeps keys out of every verb.
func (p SSLPatch) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redactedPatch) }

// LogValue keeps keys out of logs.
func (p SSLPatch) LogValue() slog.Value { return slog.StringValue(redactedPatch) }

// empty reports whether no member is given.
func (p Patch) empty() bool {
	return !p.ConfigName.Given && !p.Kind.Given && !p.Host.Given && !p.Port.Given && !p.DatabaseName.Given &&
		!p.Schema.Given && !p.UserName.Given && !p.Password.Given && !p.SSL.Given && p.Metadata == nil
}

// Condition is what a caller demands of the connection it changes; nil demands nothing.
type Condition func(*store.Connection) bool

// check returns FET-1090 when the condition is not met.
func (met Condition) check(c *store.Connection) error {
	if met == nil || met(c) {
		return nil
	}
	return problem.New(problem.PreconditionFailed, "the connection has changed since it was read").
		With(problem.Field{Location: "header.If-Match", Message: "does not match"})
}

// Update merges p into a connection and returns the outcome, which meets the rules of Create as a whole. In this order:
// something to change (FET-0001), the connection exists (FET-1001), no active job uses it (FET-1021), the condition
// (FET-1090), then the checks of Create. Secrets are sealed anew under the current key, the kept ones too.
func (s *Service) Update(
	ctx context.Context, db store.Connections, tenantID string, id uuid.UUID, match Condition, p Patch,
) (*store.Connection, error) {
	if p.empty() {
		return nil, problem.New(problem.Malformed, "the body has no known member").
			With(problem.Field{Location: "body", Message: "must have a member to change"})
	}
	if err := checkPatchMetadata(p.Metadata); err != nil {
		return nil, err
	}
	c, err := db.Change(ctx, id, func(c *store.Connection) error {
		if err := match.check(c); err != nil {
			return err
		}
		return s.change(tenantID, c, p)
	})
	if err != nil {
		return nil, nameTaken(err)
	}
	return c, nil
}

// Delete removes a connection and wipes its secrets. In this order: it exists (FET-1001), no active job uses it
// (FET-1021), the condition (FET-1090).
func (s *Service) Delete(ctx context.Context, db store.Connections, id uuid.UUID, match Condition) error {
	return db.Delete(ctx, id, match.check)
}

// change applies a patch to a connection, or says why the outcome would not do.
func (s *Service) change(tenantID string, c *store.Connection, p Patch) error {
	in, err := s.merged(tenantID, c, p)
	if err != nil {
		return fmt.Errorf("update connection: %w", err)
	}
	in = in.normalized()
	if err = s.validate(in); err != nil {
		return err
	}
	if err = checkGrowth(in.Metadata, p.Metadata); err != nil {
		return err
	}
	if *in.ConfigName != c.ConfigName && s.opts.Reserved(*in.ConfigName) {
		return problem.New(problem.NameTaken, "the configName is reserved")
	}
	c.ConfigName, c.Kind, c.Host, c.Port = *in.ConfigName, *in.Kind, *in.Host, *in.Port
	c.DatabaseName, c.Schema, c.UserName, c.Metadata = *in.DatabaseName, in.Schema, *in.UserName, in.Metadata
	c.UpdatedAt = s.opts.Now().UTC().Truncate(time.Microsecond)
	if err = s.sealAll(tenantID, c, in); err != nil {
		return fmt.Errorf("update connection: %w", err)
	}
	return nil
}

// merged is the connection with the patch applied, as Create would take it. The secrets that the patch replaces are
// not opened, so that they can be replaced when their key is lost.
func (s *Service) merged(tenantID string, c *store.Connection, p Patch) (Input, error) {
	in := Input{
		ConfigName: new(c.ConfigName), Kind: new(c.Kind), Host: new(c.Host), Port: new(c.Port),
		DatabaseName: new(c.DatabaseName), Schema: c.Schema, UserName: new(c.UserName), Metadata: mergeMetadata(c.Metadata, p.Metadata),
	}
	p.ConfigName.apply(&in.ConfigName)
	p.Kind.apply(&in.Kind)
	p.Host.apply(&in.Host)
	p.Port.apply(&in.Port)
	p.DatabaseName.apply(&in.DatabaseName)
	p.Schema.apply(&in.Schema)
	p.UserName.apply(&in.UserName)
	ssl := SSLInput{Mode: c.SSLMode}
	var change SSLPatch
	if p.SSL.Given && p.SSL.Value == nil {
		gone := Member[string]{Given: true}
		change = SSLPatch{Mode: gone, CA: gone, Cert: gone, Key: gone}
	} else if p.SSL.Given {
		change = *p.SSL.Value
	}
	change.Mode.apply(&ssl.Mode)
	for _, f := range []struct {
		field  string
		sealed []byte
		change Member[string]
		into   **string
	}{
		{fieldPassword, c.PasswordSealed, p.Password, &in.Password},
		{fieldCA, c.SSLCASealed, change.CA, &ssl.CA},
		{fieldCert, c.SSLCertSealed, change.Cert, &ssl.Cert},
		{fieldKey, c.SSLKeySealed, change.Key, &ssl.Key},
	} {
		f.change.apply(f.into)
		if f.change.Given || f.sealed == nil {
			continue
		}
		plain, err := s.open(tenantID, c, f.field, f.sealed)
		if err != nil {
			return Input{}, err
		}
		*f.into = &plain
	}
	in.SSL = &ssl
	return in, nil
}
