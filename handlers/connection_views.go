package handlers

import (
	"time"

	"github.com/fetcherhq/fetcher/connections"
	"github.com/fetcherhq/fetcher/store"
)

// input is the body as the service takes it.
func (b *CreateConnection) input() connections.Input {
	in := connections.Input{
		ConfigName: b.ConfigName, Kind: b.Type, Host: b.Host, Port: b.Port, DatabaseName: b.DatabaseName,
		UserName: b.UserName, Password: b.Password, Schema: b.Schema, Metadata: b.Metadata,
	}
	if b.SSL != nil {
		in.SSL = &connections.SSLInput{Mode: b.SSL.Mode, CA: b.SSL.CA, Cert: b.SSL.Cert, Key: b.SSL.Key}
	}
	return in
}

// viewConnection is what a caller may see of a connection.
func viewConnection(c *store.Connection) Connection {
	view := Connection{
		ID: c.ID, ProductName: c.ProductName, ConfigName: c.ConfigName, Type: c.Kind, Host: c.Host, Port: c.Port,
		DatabaseName: c.DatabaseName, Schema: c.Schema, UserName: c.UserName, Metadata: c.Metadata,
		CreatedAt: instant(&c.CreatedAt), UpdatedAt: instant(&c.UpdatedAt),
	}
	if c.SSLMode != nil {
		view.SSL = &SSLMode{Mode: *c.SSLMode}
	}
	return view
}

// instant is a time as it is answered, in UTC; nil for none.
func instant(t *time.Time) *time.Time {
	if t == nil || t.IsZero() {
		return nil
	}
	if t.Location() == time.UTC { // as the store has them
		return t
	}
	utc := t.UTC()
	return &utc
}
