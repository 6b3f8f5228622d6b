package testkit

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// DatabaseOptions say what the owner of a database may do beyond owning it.
type DatabaseOptions struct {
	CreateDB   bool // may create databases; they are dropped with this one
	CreateRole bool
	Superuser  bool
}

// Database is a database of one test and the role that owns it.
type Database struct {
	DSN      string
	Name     string
	Owner    string
	Password string
	Host     string
	Port     int
}

// NewDatabase creates an empty database for tb, owned by an ordinary role of its own, and returns the address for
// that role. Both are dropped when tb ends, whoever is still connected.
func (pg *PG) NewDatabase(tb testing.TB) string {
	tb.Helper()
	return pg.CreateDatabase(tb, DatabaseOptions{}).DSN
}

// CreateDatabase is NewDatabase with options and every part of the address.
func (pg *PG) CreateDatabase(tb testing.TB, opts DatabaseOptions) Database {
	tb.Helper()
	d, err := pg.describe()
	if err != nil {
		tb.Fatalf("testkit: %v", err)
	}
	tb.Cleanup(func() {
		if err := pg.exec(dropDatabase(d)); err != nil {
			tb.Errorf("testkit: drop database: %v", err)
		}
	})
	if err := pg.exec(createDatabase(d, opts)); err != nil {
		tb.Fatalf("testkit: create database: %v", err)
	}
	return d
}

// Exec runs statements as the server's administrator, each on its own, and fails the test if one fails.
func (pg *PG) Exec(tb testing.TB, statements ...string) {
	tb.Helper()
	err := pg.exec(func(ctx context.Context, conn *pgx.Conn) error {
		for _, statement := range statements {
			if _, err := conn.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		tb.Fatalf("testkit: %v", err)
	}
}

// describe makes up names and the address of a database that doesn't exist yet.
func (pg *PG) describe() (Database, error) {
	config, err := pgx.ParseConfig(pg.admin)
	if err != nil {
		return Database{}, errors.New("the administrator's address is malformed") // the parser's text may quote it
	}
	address, err := url.Parse(pg.admin)
	if err != nil || address.Host == "" {
		return Database{}, fmt.Errorf("%s must be a URL", DatabaseURL)
	}
	var id [6]byte
	_, _ = rand.Read(id[:]) // never fails
	d := Database{
		Name:     "test_" + hex.EncodeToString(id[:]),
		Password: rand.Text(),
		Host:     config.Host,
		Port:     int(config.Port),
	}
	d.Owner = d.Name
	address.User = url.UserPassword(d.Owner, d.Password)
	address.Path = "/" + d.Name
	d.DSN = address.String()
	return d, nil
}

func createDatabase(d Database, opts DatabaseOptions) func(context.Context, *pgx.Conn) error {
	attributes := []string{"LOGIN"}
	for word, wanted := range map[string]bool{
		"CREATEDB": opts.CreateDB, "CREATEROLE": opts.CreateRole, "SUPERUSER": opts.Superuser,
	} {
		if wanted {
			attributes = append(attributes, word)
		}
	}
	return func(ctx context.Context, conn *pgx.Conn) error {
		// The names and the password consist of letters and digits.
		for _, statement := range []string{
			fmt.Sprintf("CREATE ROLE %s %s PASSWORD '%s'", d.Owner, strings.Join(attributes, " "), d.Password),
			fmt.Sprintf("GRANT %s TO CURRENT_USER", d.Owner), // an administrator that isn't superuser needs it
			fmt.Sprintf("CREATE DATABASE %s OWNER %s TEMPLATE template0 ENCODING 'UTF8'", d.Name, d.Owner),
			fmt.Sprintf("REVOKE CONNECT ON DATABASE %s FROM PUBLIC", d.Name),
		} {
			if _, err := conn.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	}
}

// dropDatabase drops every database of the owner and then the owner.
func dropDatabase(d Database) func(context.Context, *pgx.Conn) error {
	return func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT datname FROM pg_database WHERE pg_get_userbyid(datdba) = $1`, d.Owner)
		if err != nil {
			return err
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		for _, name := range names {
			drop := "DROP DATABASE IF EXISTS " + pgx.Identifier{name}.Sanitize() + " WITH (FORCE)"
			if _, err = conn.Exec(ctx, drop); err != nil {
				return err
			}
		}
		_, err = conn.Exec(ctx, "DROP ROLE IF EXISTS "+d.Owner)
		return err
	}
}

// exec runs f on a connection of the administrator. Tests end with cancelled contexts, clean-up may not.
func (pg *PG) exec(f func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, pg.admin)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	return f(ctx, conn)
}
