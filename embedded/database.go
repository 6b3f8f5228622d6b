package embedded

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Right is what a database's owner may do on the server beyond owning the database.
type Right string

// The rights.
const (
	RoleCreateDB   Right = "CREATEDB"
	RoleCreateRole Right = "CREATEROLE"
)

// Database is a database of the embedded server with the role that owns it. It holds a password.
type Database struct {
	Name     string
	User     string
	Password string
	Host     string
	Port     int
}

// DSN is the database's URL for its owner.
func (d Database) DSN() string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(d.User, d.Password),
		Host:     net.JoinHostPort(d.Host, strconv.Itoa(d.Port)),
		Path:     "/" + d.Name,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// EnsureDatabase makes sure that a database of that name and a login role that owns it exist. The role's password is
// made up by the first call and kept in the server's directory, mode 0600. Others may not connect to the database.
// It is safe to call again, also after a call that was interrupted.
func (p *Postgres) EnsureDatabase(ctx context.Context, name, user string, rights ...Right) (Database, error) {
	password, err := keptSecret(filepath.Join(p.cluster.dir, "password-"+user))
	if err != nil {
		return Database{}, fmt.Errorf("database %s: %w", name, err)
	}
	d := Database{Name: name, User: user, Password: password, Host: p.Host(), Port: p.port}
	conn, err := pgx.Connect(ctx, p.DSN(superuser))
	if err != nil {
		return Database{}, fmt.Errorf("database %s: connect: %w", name, err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if err := ensureRole(ctx, conn, d, rights); err != nil {
		return Database{}, fmt.Errorf("database %s: role: %w", name, err)
	}
	if err := ensureDatabase(ctx, conn, d); err != nil {
		return Database{}, fmt.Errorf("database %s: %w", name, err)
	}
	return d, nil
}

func ensureRole(ctx context.Context, conn *pgx.Conn, d Database, rights []Right) error {
	role := pgx.Identifier{d.User}.Sanitize()
	var exists bool
	if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)`, d.User).Scan(&exists); err != nil {
		return err
	}
	words := []string{"CREATE", "ROLE", role, "LOGIN"}
	if exists {
		words[0] = "ALTER"
	}
	for _, right := range rights {
		words = append(words, string(right))
	}
	words = append(words, "PASSWORD", "'"+d.Password+"'") // hexadecimal digits
	_, err := conn.Exec(ctx, strings.Join(words, " "))
	return err
}

func ensureDatabase(ctx context.Context, conn *pgx.Conn, d Database) error {
	var exists bool
	if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, d.Name).Scan(&exists); err != nil {
		return err
	}
	database := pgx.Identifier{d.Name}.Sanitize()
	if !exists {
		_, err := conn.Exec(ctx, "CREATE DATABASE "+database+
			" OWNER "+pgx.Identifier{d.User}.Sanitize()+" TEMPLATE template0 ENCODING 'UTF8'")
		if err != nil {
			return err
		}
	}
	_, err := conn.Exec(ctx, "REVOKE CONNECT ON DATABASE "+database+" FROM PUBLIC")
	return err
}
