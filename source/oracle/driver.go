// Package oracle owns reading Oracle Database 12.1 and newer: connecting, the catalogue, the snapshot, and rows as JSON.
//
// It touches the network only through the dialer it is given and changes nothing at the server: it sends no statement
// but SELECT and those that set up its own session. It promises that values reach SQL as bound parameters only, that a
// session reads one read-only snapshot, that numbers and moments keep every digit, that a stream which did not end as
// the server meant it to is an error, and that a statement whose context ends is cancelled at the server.
package oracle

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"

	oracle "github.com/sijms/go-ora/v2"
	"github.com/sijms/go-ora/v2/configurations"

	"github.com/fetcherhq/fetcher/source"
)

const (
	// application is how the server lists our sessions: the login has a field for the program, and module is set by a
	// statement.
	application = "fetcher"

	// optionService names the service of a listener that we ask for.
	optionService = "serviceName"

	// dataUnit is how many bytes a packet may have; servers cut it down to theirs.
	dataUnit = 64 << 10
)

type driver struct{}

// New returns the driver for Oracle Database 12.1 and newer.
func New() source.Driver { return driver{} }

// Open connects in the TLS mode of p and authenticates with user and password.
func (driver) Open(ctx context.Context, p source.Params, d source.Dialer) (source.Session, error) {
	if err := check(p); err != nil {
		return nil, &source.Error{Category: source.CategoryUnsupported, Err: err}
	}
	l := &link{dialer: d}
	config, err := configOf(ctx, p, l)
	if err != nil {
		return nil, &source.Error{Category: source.CategoryTLS, Err: err}
	}
	conn, err := oracle.NewConnection("", config)
	if err != nil {
		return nil, &source.Error{Category: source.CategoryOther, Err: err}
	}
	h, err := handleOf(conn)
	if err != nil {
		return nil, &source.Error{Category: source.CategoryOther, Err: err}
	}
	stop := context.AfterFunc(ctx, l.closeAll)
	// The driver would react to the context by writing to the connection that it is reading from.
	err = safely(func() error { return conn.OpenWithContext(context.WithoutCancel(ctx)) })
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		l.closeAll()
		return nil, classifyOpening(ctx, fmt.Errorf("connect: %w", err), l.failure())
	}
	s := &session{handle: h, link: l, schema: p.Schema}
	if err := s.prepare(ctx); err != nil {
		l.closeAll()
		return nil, err
	}
	return s, nil
}

// check refuses what the driver would understand in another way than it is meant: it writes host and service into a
// descriptor of nested parentheses.
func check(p source.Params) error {
	switch {
	case p.Kind != "" && p.Kind != source.Oracle:
		return errors.New("not an Oracle connection")
	case p.Host == "" || p.Port < 1 || p.Port > math.MaxUint16:
		return errors.New("host or port missing or out of range")
	case p.User == "" || p.Password == "":
		return errors.New("user or password missing") // the driver would try the account that the process runs under
	case strings.ContainsRune(p.User+p.Password, 0):
		return errors.New("user or password contains NUL")
	case !plain(p.Host, ":%"):
		return errors.New("host has characters that no host name has")
	case !plain(service(p), "$#"):
		return errors.New("service name is missing or has characters that a connect descriptor can't hold")
	}
	return nil
}

// plain reports whether s is letters, digits, and signs of names.
func plain(s, more string) bool {
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		case !strings.ContainsRune("._-"+more, r):
			return false
		}
	}
	return s != ""
}

// service returns the service that the listener is asked for.
func service(p source.Params) string {
	if name := p.Options[optionService]; name != "" {
		return name
	}
	return p.Database
}

// configOf fills in the driver's configuration, without a connection string on the way that could be misread. Nothing in
// it tells the server about this machine or its users. ctx bounds dialling.
func configOf(ctx context.Context, p source.Params, l *link) (*configurations.ConnectionConfig, error) {
	config := &configurations.ConnectionConfig{
		ClientInfo: configurations.ClientInfo{
			ProgramPath: application, ProgramName: application, OSUserName: application, HostName: application,
			DriverName: application, Language: "AMERICAN", Territory: "AMERICA",
		},
		DatabaseInfo: configurations.DatabaseInfo{
			UserID: p.User, Password: p.Password, ServiceName: service(p),
			Servers: []configurations.ServerAddr{{Addr: p.Host, Port: p.Port}},
		},
		SessionInfo: configurations.SessionInfo{
			TransportDataUnitSize: dataUnit, SessionDataUnitSize: dataUnit,
			Protocol: "tcp", SSLVerify: true,
			Dialer: dialerFunc(func(_ context.Context, network, address string) (net.Conn, error) {
				return l.DialContext(ctx, network, address)
			}),
		},
		PrefetchRows: fetchCatalog,
		Lob:          configurations.INLINE,
	}
	encrypted, tls, err := encryptionOf(p)
	if err != nil {
		return nil, err
	}
	// Set without encryption, too: a listener may send us on to an encrypted port.
	config.TLSConfig = tls
	if encrypted {
		config.Protocol, config.SSL, l.encrypted = "tcps", true, true
	}
	return config, nil
}

// dialerFunc is a dialer that is a function.
type dialerFunc func(ctx context.Context, network, address string) (net.Conn, error)

// DialContext calls the function.
func (f dialerFunc) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return f(ctx, network, address)
}
