// Package mysql owns reading MySQL and MariaDB: connecting, the catalogue, the snapshot, and rows as JSON.
//
// It touches the network only through the dialer it is given and changes nothing at the server. go-sql-driver/mysql
// authenticates; from then on the package speaks the protocol itself, so that values go from the wire into JSON as
// bytes and a large one is never held. It promises that every session reads one REPEATABLE READ, READ ONLY snapshot of
// the tables whose engine has such, that values reach SQL as bound parameters only, that a stream which did not end as
// the server meant it to is an error, and that a statement whose context ends is ended at the server.
package mysql

import (
	"context"
	"errors"
	"math"
	"strings"

	"github.com/fetcherhq/fetcher/source"
)

type driver struct{}

// New returns the driver for MySQL 5.7, MariaDB 10.3 and newer.
func New() source.Driver { return driver{} }

// Open connects in the TLS mode of p and authenticates. Settings are made by statements, after that.
func (driver) Open(ctx context.Context, p source.Params, d source.Dialer) (source.Session, error) {
	if err := check(p); err != nil {
		return nil, &source.Error{Category: source.CategoryUnsupported, Err: err}
	}
	attempts, err := plan(p)
	if err != nil {
		return nil, &source.Error{Category: source.CategoryTLS, Err: err}
	}
	var failed *source.Error
	for _, a := range attempts {
		s, err := open(ctx, &link{dialer: d, params: p, attempt: a})
		if err == nil {
			return s, nil
		}
		if failed == nil || err.Category != source.CategoryTLS {
			failed = err
		}
		if ctx.Err() != nil || err.Category != source.CategoryTLS {
			break
		}
	}
	return nil, failed
}

func check(p source.Params) error {
	switch {
	case p.Kind != "" && p.Kind != source.MySQL:
		return errors.New("not a MySQL connection")
	case p.Host == "" || p.Port < 1 || p.Port > math.MaxUint16:
		return errors.New("host or port missing or out of range")
	case strings.ContainsRune(p.User+p.Password+p.Database, 0):
		return errors.New("user, password or database contains NUL")
	case p.User == "":
		return errors.New("user missing")
	}
	return nil
}
