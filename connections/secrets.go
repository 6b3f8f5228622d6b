package connections

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/store"
)

// The names under which a connection's secrets are sealed. Changing one makes the stored secrets unreadable.
const (
	fieldPassword = "password"
	fieldCA       = "ssl_ca"
	fieldCert     = "ssl_cert"
	fieldKey      = "ssl_key"
)

func scope(tenantID string, id uuid.UUID, field string) secret.Scope {
	return secret.Scope{Tenant: tenantID, Object: id.String(), Field: field}
}

// sealAll puts the secrets of a valid input into c, sealed, in place of those it has.
func (s *Service) sealAll(tenantID string, c *store.Connection, in Input) error {
	var ssl SSLInput
	if in.SSL != nil {
		ssl = *in.SSL
	}
	c.SSLMode = ssl.Mode
	c.KeyVersion = s.opts.Keys.CurrentVersion()
	for _, f := range []struct {
		field string
		value *string
		into  *[]byte
	}{
		{fieldPassword, in.Password, &c.PasswordSealed},
		{fieldCA, ssl.CA, &c.SSLCASealed},
		{fieldCert, ssl.Cert, &c.SSLCertSealed},
		{fieldKey, ssl.Key, &c.SSLKeySealed},
	} {
		*f.into = nil
		if f.value == nil {
			continue
		}
		sealed, err := s.opts.Keys.Seal(scope(tenantID, c.ID, f.field), []byte(*f.value))
		if err != nil {
			return fmt.Errorf("seal %s: %w", f.field, err)
		}
		*f.into = sealed
	}
	return nil
}

// Params opens the secrets of a tenant's connection and returns how to reach it. It fails when a secret was sealed for
// another tenant, connection or field, or under a key that is not in the ring; the error names the field only. A stored
// TLS mode that is not allowed any more is FET-0413. Those of an internal datasource are the operator's.
func (s *Service) Params(tenantID string, c *store.Connection) (source.Params, error) {
	if d := s.opts.Internal.find(tenantID, c.ID); d != nil {
		return d.params, nil
	}
	options, _ := kindOptions(source.Kind(c.Kind), c.Metadata, c.DatabaseName)
	p := source.Params{
		Kind: source.Kind(c.Kind), Host: c.Host, Port: c.Port, Database: c.DatabaseName, User: c.UserName, Options: options,
	}
	if c.Schema != nil {
		p.Schema = *c.Schema
	}
	if c.SSLMode != nil {
		p.TLS.Mode = *c.SSLMode
	}
	if s.opts.RequireTLS && !source.Encrypts(p.Kind, p.TLS.Mode) {
		return source.Params{}, problem.New(problem.SSLModeInvalid, "the connection's TLS mode may leave it unencrypted, which is not allowed here")
	}
	for _, f := range []struct {
		field  string
		sealed []byte
		into   *string
	}{
		{fieldPassword, c.PasswordSealed, &p.Password},
		{fieldCA, c.SSLCASealed, &p.TLS.CA},
		{fieldCert, c.SSLCertSealed, &p.TLS.Cert},
		{fieldKey, c.SSLKeySealed, &p.TLS.Key},
	} {
		if f.sealed == nil && f.field != fieldPassword {
			continue
		}
		plain, err := s.open(tenantID, c, f.field, f.sealed)
		if err != nil {
			return source.Params{}, err
		}
		*f.into = plain
	}
	return p, nil
}

func (s *Service) open(tenantID string, c *store.Connection, field string, sealed []byte) (string, error) {
	plain, err := s.opts.Keys.Open(scope(tenantID, c.ID, field), sealed)
	if err != nil {
		return "", fmt.Errorf("open %s of connection %s: %w", field, c.ID, err)
	}
	return string(plain), nil
}
