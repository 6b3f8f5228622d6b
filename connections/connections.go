// Package connections owns what a tenant says about its external databases: the rules a connection must meet, the
// sealing of its secrets, and opening sessions for tests, schema reads and jobs.
//
// It touches the tenant's store it is handed, the key ring, and external databases through the guarded dialer. It
// promises that secrets are stored sealed for one tenant, connection and field only, that no host a tenant names is
// dialled which the guard refuses, that an internal datasource is there only for tenants that may read it, and that
// what it says about a fault never holds a secret, an address or a driver's words.
package connections

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/store"
)

const (
	defaultTestTimeout   = 10 * time.Second
	defaultSchemaTimeout = 30 * time.Second
)

// Options are what a Service needs. Keys and Guard are required.
type Options struct {
	Keys    *secret.Keyring
	Guard   *dial.Guard
	Drivers source.Drivers // kinds without a driver can be stored, but not tested or read

	Internal *Internals // the platform's own databases; nil: none

	RequireTLS    bool                         // refuse every mode that may end unencrypted
	Reserved      func(configName string) bool // names that tenants can't take; nil: those of Internal
	TestTimeout   time.Duration                // 0: 10 s
	SchemaTimeout time.Duration                // 0: 30 s

	Now   func() time.Time          // nil: time.Now
	NewID func() (uuid.UUID, error) // nil: UUIDv7
}

// Service is the rules and operations of connections. It is safe for concurrent use.
type Service struct{ opts Options }

// New returns a service.
func New(opts Options) (*Service, error) {
	if opts.Keys == nil || opts.Guard == nil {
		return nil, errors.New("connections: a key ring and a guard are needed")
	}
	if opts.TestTimeout == 0 {
		opts.TestTimeout = defaultTestTimeout
	}
	if opts.SchemaTimeout == 0 {
		opts.SchemaTimeout = defaultSchemaTimeout
	}
	if opts.Reserved == nil {
		opts.Reserved = opts.Internal.Reserved
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.NewID == nil {
		opts.NewID = uuid.NewV7
	}
	return &Service{opts: opts}, nil
}

// Create checks in, in this order: host allowed (FET-0414), required members (FET-0402), formats (FET-0001, or the code
// of its own that all faults share), uniqueness (FET-1002). It stores the connection with its secrets sealed, and dials
// nothing. product comes from ParseProduct.
func (s *Service) Create(
	ctx context.Context, db store.Connections, tenantID, product string, in Input,
) (*store.Connection, error) {
	in = in.normalized()
	if err := s.validate(in); err != nil {
		return nil, err
	}
	if s.opts.Reserved(*in.ConfigName) {
		return nil, nameTaken(problem.New(problem.NameTaken, "the configName is reserved"))
	}
	c, err := s.build(tenantID, product, in)
	if err != nil {
		return nil, fmt.Errorf("create connection: %w", err)
	}
	if err := db.Create(ctx, c); err != nil {
		return nil, nameTaken(err)
	}
	return c, nil
}

// nameTaken adds the location to FET-1002; other errors pass.
func nameTaken(err error) error {
	if p, ok := errors.AsType[*problem.Error](err); ok && p.Code == problem.NameTaken && len(p.Fields) == 0 {
		return p.With(problem.Field{Location: "body.configName", Message: "is already used"})
	}
	return err
}

// build makes the row of a valid input.
func (s *Service) build(tenantID, product string, in Input) (*store.Connection, error) {
	id, err := s.opts.NewID()
	if err != nil {
		return nil, fmt.Errorf("make an id: %w", err)
	}
	now := s.opts.Now().UTC().Truncate(time.Microsecond) // what Postgres keeps
	c := &store.Connection{
		ID: id, ConfigName: *in.ConfigName, Kind: *in.Kind, Host: *in.Host, Port: *in.Port,
		DatabaseName: *in.DatabaseName, Schema: in.Schema, UserName: *in.UserName,
		Metadata: in.Metadata, Revision: 1, CreatedAt: now, UpdatedAt: now,
	}
	if product != "" {
		c.ProductName = &product
	}
	if err := s.sealAll(tenantID, c, in); err != nil {
		return nil, err
	}
	return c, nil
}
