package tenant

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenantid"
)

// Provision creates a role and a database of its own for the tenant on the control server and returns the address.
// The role may log in and owns that database; no other role may connect to it. Its password is random, and the
// server is told its verifier only, so that no statement log holds it. What exists from an earlier attempt is taken
// over, with a new password: the caller must know that the tenant isn't registered.
// The control database's user must be allowed to create roles and databases.
func (a Admin) Provision(ctx context.Context, tenantID string) (dsn string, err error) {
	id, ok := tenantid.Canonical(tenantID)
	if !ok {
		return "", ErrID
	}
	cfg := a.Control.Pool().Config().ConnConfig
	name, password := DatabaseName(id), rand.Text()
	if dsn, err = addressOf(cfg.ConnString(), name, password); err != nil {
		return "", err
	}
	// Not the pool: CREATE DATABASE copies a template for seconds.
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return "", fmt.Errorf("provision tenant: %w", store.Cause("connect", err))
	}
	defer func() { err = errors.Join(err, store.Cause("close", conn.Close(context.WithoutCancel(ctx)))) }()
	if err := provision(ctx, conn, name, password); err != nil {
		return "", fmt.Errorf("provision tenant: %w", err)
	}
	return dsn, nil
}

// Deprovision drops the tenant's database and role on the control server, with everything in them, whoever is
// connected. Nothing is dropped that Provision did not create; what is gone already is no error.
func (a Admin) Deprovision(ctx context.Context, tenantID string) (err error) {
	id, ok := tenantid.Canonical(tenantID)
	if !ok {
		return ErrID
	}
	conn, err := pgx.ConnectConfig(ctx, a.Control.Pool().Config().ConnConfig)
	if err != nil {
		return fmt.Errorf("deprovision tenant: %w", store.Cause("connect", err))
	}
	defer func() { err = errors.Join(err, store.Cause("close", conn.Close(context.WithoutCancel(ctx)))) }()
	if err := ownedBy(ctx, conn, DatabaseName(id)); err != nil {
		return fmt.Errorf("deprovision tenant: %w", err)
	}
	name := pgx.Identifier{DatabaseName(id)}.Sanitize()
	for _, statement := range []string{
		"DROP DATABASE IF EXISTS " + name + " WITH (FORCE)",
		"DROP ROLE IF EXISTS " + name,
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("deprovision tenant: %w", store.Cause("drop", err))
		}
	}
	return nil
}

// DatabaseName is the name of the role and the database that Provision makes for the tenant: readable, and told apart
// by a digest where ids differ in what a name can't hold.
func DatabaseName(tenantID string) string {
	const longest = 40 // the server's limit is 63 bytes
	readable := strings.Map(func(c rune) rune {
		if c == '-' {
			return '_'
		}
		return c
	}, strings.ToLower(tenantID))
	sum := sha256.Sum256([]byte(tenantID))
	return "fetcher_" + readable[:min(len(readable), longest)] + "_" + hex.EncodeToString(sum[:4])
}

// SQLSTATEs of what an earlier attempt left behind.
const (
	duplicateRole     = "42710"
	duplicateDatabase = "42P04"
)

// database keeps sorting and case rules apart from what the server's operating system thinks of them.
const database = " TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'"

func provision(ctx context.Context, conn *pgx.Conn, name, password string) error {
	verifier, err := scramVerifier(password)
	if err != nil {
		return err
	}
	role := pgx.Identifier{name}.Sanitize()
	for _, step := range []struct{ op, statement, tolerate string }{
		{"create role", "CREATE ROLE " + role + " LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE", duplicateRole},
		{"set password", "ALTER ROLE " + role + " PASSWORD '" + verifier + "'", ""},
		// A creator that is not superuser can make another role the owner only as a member of it.
		{"join role", "GRANT " + role + " TO CURRENT_USER", ""},
		{"create database", "CREATE DATABASE " + role + " OWNER " + role + database, duplicateDatabase},
		{"close database", "REVOKE ALL ON DATABASE " + role + " FROM PUBLIC", ""},
	} {
		if _, err := conn.Exec(ctx, step.statement); err != nil && !isState(err, step.tolerate) {
			return store.Cause(step.op, err)
		}
	}
	return ownedBy(ctx, conn, name)
}

// ownedBy refuses a database of that name that belongs to somebody else.
func ownedBy(ctx context.Context, conn *pgx.Conn, name string) error {
	var owner string
	err := conn.QueryRow(ctx, `SELECT pg_get_userbyid(datdba)::text FROM pg_database WHERE datname = $1`, name).Scan(&owner)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return store.Cause("check owner", err)
	}
	if owner != name {
		return errors.New("a database of the tenant's name exists and belongs to another role")
	}
	return nil
}

func isState(err error, state string) bool {
	var pg *pgconn.PgError
	return state != "" && errors.As(err, &pg) && pg.Code == state
}

// scramVerifier is what a server stores of a password (RFC 5803). It consists of characters that need no escaping.
func scramVerifier(password string) (string, error) {
	const iterations = 4096 // the servers' own default; the password is random anyway
	var salt [16]byte
	_, _ = rand.Read(salt[:]) // never fails
	salted, err := pbkdf2.Key(sha256.New, password, salt[:], iterations, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("derive verifier: %w", err)
	}
	stored := sha256.Sum256(mac(salted, "Client Key"))
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", iterations, b64(salt[:]), b64(stored[:]), b64(mac(salted, "Server Key"))), nil
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// addressOf is the address control with another database and user on the same server.
func addressOf(controlDSN, name, password string) (string, error) {
	if !strings.HasPrefix(controlDSN, "postgres://") && !strings.HasPrefix(controlDSN, "postgresql://") {
		// Of a keyword that is given twice the last value holds.
		return fmt.Sprintf("%s user='%s' password='%s' dbname='%s'", controlDSN, name, password, name), nil
	}
	u, err := url.Parse(controlDSN)
	if err != nil {
		return "", errDSN
	}
	u.User, u.Path = url.UserPassword(name, password), "/"+name
	q := u.Query()
	for key := range q {
		if strings.HasPrefix(key, "pool_") || key == "user" || key == "password" || key == "dbname" || key == "database" {
			q.Del(key)
		}
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}
