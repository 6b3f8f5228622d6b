package connections

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/store"
)

// internalNamespace makes the ids of internal datasources. It must never change.
var internalNamespace = uuid.MustParse("0d3c8f52-6f0e-4a27-9b43-6f8f6d1c7a90")

// Internals are the databases of the platform itself, and who may read which. They are immutable and safe for
// concurrent use; a nil one holds none.
type Internals struct {
	all    []internal // in name order
	dialer source.Dialer
}

// internal is one of them, as a tenant sees it but for the id, and how to reach it.
type internal struct {
	row    store.Connection
	params source.Params
	opened func(tenantID string) bool // to whom
}

// NewInternals returns the datasources that the definitions describe. They must pass Check; their names must differ.
func NewInternals(definitions ...Definition) (*Internals, error) {
	in := &Internals{dialer: dial.Direct{}}
	for _, d := range definitions {
		if faults := d.Check(false); len(faults) > 0 {
			return nil, fmt.Errorf("internal datasource: %s %s", faults[0].Location, faults[0].Message)
		}
		in.all = append(in.all, d.build())
	}
	slices.SortFunc(in.all, func(a, b internal) int { return cmp.Compare(a.row.ConfigName, b.row.ConfigName) })
	for i := range in.all[min(1, len(in.all)):] {
		if name := in.all[i].row.ConfigName; name == in.all[i+1].row.ConfigName {
			return nil, fmt.Errorf("internal datasource: two are called %s", name)
		}
	}
	return in, nil
}

// Reserved reports whether an internal datasource has the name, whoever may read it.
func (in *Internals) Reserved(configName string) bool { return in.named(configName) != nil }

func (in *Internals) named(configName string) *internal {
	if in == nil {
		return nil
	}
	i, found := slices.BinarySearchFunc(in.all, configName, func(d internal, name string) int {
		return cmp.Compare(d.row.ConfigName, name)
	})
	if !found {
		return nil
	}
	return &in.all[i]
}

// find returns the datasource that has the id for the tenant, if the tenant may read it.
func (in *Internals) find(tenantID string, id uuid.UUID) *internal {
	if in == nil {
		return nil
	}
	for i := range in.all {
		if d := &in.all[i]; d.opened(tenantID) && d.id(tenantID) == id {
			return d
		}
	}
	return nil
}

func (d *internal) id(tenantID string) uuid.UUID {
	return uuid.NewSHA1(internalNamespace, []byte(tenantID+"/"+d.row.ConfigName))
}

// seenBy is the datasource as the tenant sees it: a connection without product, timestamps and secrets.
func (d *internal) seenBy(tenantID string) *store.Connection {
	row := d.row
	row.ID = d.id(tenantID)
	return &row
}

// revision is a number that changes with what a tenant can see of the row.
func revision(c *store.Connection) int64 {
	h := sha256.New()
	for _, s := range []string{c.ConfigName, c.Kind, c.Host, c.DatabaseName, c.UserName, textOf(c.Schema), textOf(c.SSLMode)} {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	fmt.Fprint(h, c.Port)
	return int64(binary.BigEndian.Uint64(h.Sum(nil)) & math.MaxInt64) // #nosec G115 -- the sign is masked off
}

// textOf is the string, or "" for none.
func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Internal returns the internal datasources that the tenant may read, in name order. They have neither product nor
// timestamps.
func (s *Service) Internal(tenantID string) []store.Connection {
	rows := []store.Connection{}
	if s.opts.Internal == nil {
		return rows
	}
	for i := range s.opts.Internal.all {
		if d := &s.opts.Internal.all[i]; d.opened(tenantID) {
			rows = append(rows, *d.seenBy(tenantID))
		}
	}
	return rows
}

// IsInternal reports whether c is an internal datasource that the tenant may read.
func (s *Service) IsInternal(tenantID string, c *store.Connection) bool {
	return s.opts.Internal.find(tenantID, c.ID) != nil
}

// Get returns what the tenant can read under the id: an internal datasource or a connection of its own. Anything else
// is FET-1001.
func (s *Service) Get(ctx context.Context, db store.Connections, tenantID string, id uuid.UUID) (*store.Connection, error) {
	if d := s.opts.Internal.find(tenantID, id); d != nil {
		return d.seenBy(tenantID), nil
	}
	return db.Get(ctx, id)
}

// Resolve returns what the names mean to the tenant, by name; names that mean nothing are left out. The name of an
// internal datasource never means anything else, not even to a tenant that may not read it.
func (s *Service) Resolve(
	ctx context.Context, db store.Connections, tenantID string, names []string,
) (map[string]*store.Connection, error) {
	found := make(map[string]*store.Connection, len(names))
	own := make([]string, 0, len(names))
	for _, name := range names {
		switch d := s.opts.Internal.named(name); {
		case d == nil:
			own = append(own, name)
		case d.opened(tenantID):
			found[name] = d.seenBy(tenantID)
		}
	}
	rows, err := db.ByNames(ctx, own)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		found[rows[i].ConfigName] = &rows[i]
	}
	return found, nil
}

// Dialer returns what the tenant's c is to be dialled with: the guard, but for an internal datasource.
func (s *Service) Dialer(tenantID string, c *store.Connection) source.Dialer {
	if s.IsInternal(tenantID, c) {
		return s.opts.Internal.dialer
	}
	return s.opts.Guard
}

// openedTo is the rule who may read a datasource.
func openedTo(everyone bool, tenants []string) func(string) bool {
	named := make(map[string]struct{}, len(tenants))
	for _, t := range tenants {
		named[t] = struct{}{}
	}
	return func(tenantID string) bool {
		_, ok := named[tenantID]
		return ok || everyone
	}
}
