// Package sqlserver owns reading Microsoft SQL Server and Azure SQL: connecting, the catalogue, the snapshot, and rows
// as JSON.
//
// It touches the network only through the dialer it is given and changes nothing at the server: it sends no statement
// but SELECT and those that set up its own session. It promises that values reach SQL as bound parameters only, that a
// session reads one snapshot where the database allows it and says so where not, that a stream which did not end as
// the server meant it to is an error, and that a statement whose context ends is cancelled at the server.
package sqlserver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf16"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/microsoft/go-mssqldb/msdsn"

	"github.com/fetcherhq/fetcher/source"
)

const (
	// application is how the server lists our sessions. Unlike all other settings it is a part of the login: there is no
	// statement for it, and no pooler between us and a server that would mind.
	application = "fetcher"

	// packetSize is what one read from the network brings, just below what servers have ready-made memory for.
	packetSize = 8000
)

type driver struct{}

// New returns the driver for SQL Server 2012 and newer, and Azure SQL.
func New() source.Driver { return driver{} }

// Open connects in the TLS mode of p and authenticates with user and password.
func (driver) Open(ctx context.Context, p source.Params, d source.Dialer) (source.Session, error) {
	if err := check(p); err != nil {
		return nil, &source.Error{Category: source.CategoryUnsupported, Err: err}
	}
	config, err := configOf(p)
	if err != nil {
		return nil, &source.Error{Category: source.CategoryTLS, Err: err}
	}
	l := newLink(d, p.Host)
	connector := mssql.NewConnectorConfig(config)
	connector.Dialer = l
	stop := context.AfterFunc(ctx, l.closeAll) // only dialling looks at the context by itself
	conn, err := connector.Connect(ctx)
	if err == nil && !stop() {
		err = ctx.Err()
	}
	stop()
	if err != nil {
		l.closeAll()
		return nil, classifyOpening(ctx, fmt.Errorf("connect: %w", err), l.failure())
	}
	s, ok := conn.(*mssql.Conn)
	if !ok {
		l.closeAll()
		return nil, &source.Error{Category: source.CategoryOther, Err: fmt.Errorf("driver made a %T", conn)}
	}
	return &session{conn: s, link: l, schema: p.Schema}, nil
}

func check(p source.Params) error {
	switch {
	case p.Kind != "" && p.Kind != source.SQLServer:
		return errors.New("not a SQL Server connection")
	case p.Host == "" || p.Port < 1 || p.Port > math.MaxUint16:
		return errors.New("host or port missing or out of range")
	case strings.ContainsRune(p.User+p.Password+p.Database, 0):
		return errors.New("user, password or database contains NUL")
	case p.User == "":
		return errors.New("user missing") // the driver would try the account that the process runs under
	}
	return nil
}

// configOf fills in the driver's configuration, without a connection string on the way that could be misread.
func configOf(p source.Params) (msdsn.Config, error) {
	encryption, tls, err := encryptionOf(p)
	if err != nil {
		return msdsn.Config{}, err
	}
	return msdsn.Config{
		Host: p.Host, Port: uint64(p.Port), // #nosec G115 -- checked
		Database: counted(p.Database), User: counted(p.User), Password: counted(p.Password),
		Encryption: encryption, TLSConfig: tls,
		AppName:   application,
		Protocols: []string{"tcp"},
		// The context limits dialling, and a session is one connection: a second one would be another snapshot.
		DialTimeout: -1, DisableRetry: true,
		PacketSize: packetSize,
	}, nil
}

// counted makes up for the driver counting characters where the protocol counts UTF-16 units: it would cut off as many
// units as there are characters beyond the basic plane. With as many characters more, of which none is sent as a part
// of the text, the count comes out right.
func counted(s string) string {
	runes := []rune(s)
	return s + strings.Repeat("x", len(utf16.Encode(runes))-len(runes))
}
