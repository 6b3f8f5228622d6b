// Package postgres owns reading PostgreSQL: connecting, the catalogue, the snapshot, and rows as JSON.
//
// It touches the network only through the dialer it is given and changes nothing at the server. No environment
// variable and no file of the process's user has a say in a connection. It promises that every session reads one
// REPEATABLE READ, READ ONLY snapshot, that values reach SQL as bound parameters only, that a stream which did not end
// as the server meant it to is an error, and that a statement whose context ends is cancelled at the server.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fetcherhq/fetcher/source"
)

// oldestMajor is the first version with everything the catalogue queries use.
const oldestMajor = 10

type driver struct{}

// New returns the driver for PostgreSQL 10 and newer.
func New() source.Driver { return driver{} }

// Open connects in the TLS mode of p and authenticates. Beyond user and database nothing is sent at start-up, so that
// connection poolers accept us.
func (driver) Open(ctx context.Context, p source.Params, d source.Dialer) (source.Session, error) {
	if err := check(p); err != nil {
		return nil, unsupported(err)
	}
	attempts, err := plan(p)
	if err != nil {
		return nil, &source.Error{Category: source.CategoryTLS, Err: err}
	}
	var failed []*source.Error
	for _, a := range attempts {
		s, err := connect(ctx, p, d, a)
		if err == nil {
			return s, nil
		}
		failed = append(failed, err)
		if ctx.Err() != nil || !otherWayHelps(err) {
			break
		}
	}
	return nil, telling(failed)
}

func check(p source.Params) error {
	switch {
	case p.Kind != "" && p.Kind != source.PostgreSQL:
		return errors.New("not a PostgreSQL connection")
	case p.Host == "" || p.Port < 1 || p.Port > math.MaxUint16:
		return errors.New("host or port missing or out of range")
	case strings.ContainsRune(p.User+p.Password+p.Database, 0):
		return errors.New("user, password or database contains NUL")
	case p.User == "":
		return errors.New("user missing")
	}
	return nil
}

func unsupported(err error) *source.Error {
	return &source.Error{Category: source.CategoryUnsupported, Err: err}
}

// connect makes one attempt.
func connect(ctx context.Context, p source.Params, d source.Dialer, a attempt) (*session, *source.Error) {
	config, err := neutralConfig()
	if err != nil {
		return nil, &source.Error{Category: source.CategoryOther, Err: err}
	}
	l := &link{dialer: d, host: p.Host, port: p.Port, tls: a.tls, optional: a.optional}
	config.Host, config.Port = p.Host, uint16(p.Port) // #nosec G115 -- checked
	config.User, config.Password, config.Database = p.User, p.Password, p.Database
	config.DialFunc = l.dial
	config.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }

	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		l.closeAll()
		return nil, classify(ctx, fmt.Errorf("connect: %w", err), true)
	}
	l.established()
	s := &session{conn: conn, link: l, schema: p.Schema}
	if major, known := majorVersion(conn.ParameterStatus("server_version")); known && major < oldestMajor {
		_ = s.Close() //nolint:contextcheck // closing has a limit of its own
		return nil, unsupported(fmt.Errorf("server version %d is older than %d", major, oldestMajor))
	}
	return s, nil
}

// majorVersion reads "15.18 (Debian …)". What poolers and relatives of PostgreSQL say instead is not known.
func majorVersion(version string) (int, bool) {
	digits, _, found := strings.Cut(version, ".")
	if !found {
		digits, _, _ = strings.Cut(version, " ")
	}
	major, err := strconv.Atoi(digits)
	return major, err == nil && major > 1
}

// otherWayHelps reports whether the attempt may have failed for being encrypted or for not being encrypted, as libpq
// assumes of allow and prefer. A wrong password is not sent twice.
func otherWayHelps(err *source.Error) bool {
	if err.Category == source.CategoryTLS {
		return true
	}
	var server *pgconn.PgError
	if !errors.As(err, &server) {
		return false
	}
	switch server.Code {
	case codeInvalidPassword, codeNoDatabase, codeNoRights, codeTooMany, codeStarting:
		return false
	}
	return true
}

// telling returns the failure that says most: the last one, unless it only follows from the first.
func telling(failed []*source.Error) *source.Error {
	last := failed[len(failed)-1]
	if len(failed) == 1 {
		return last
	}
	first := failed[0]
	switch {
	case last.Category == source.CategoryTLS: // allow: the server has no TLS, so its first answer stands
		return first
	case first.Category == source.CategoryTLS && last.Category == source.CategoryAuth:
		// prefer: broken encryption, then refused for want of it; but a wrong password is just that
		var server *pgconn.PgError
		if errors.As(last, &server) && server.Code != codeInvalidPassword {
			return first
		}
	}
	return last
}
