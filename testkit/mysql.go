package testkit

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// MySQLServer is a server that speaks the protocol of MySQL: MariaDB, or a relative.
type MySQLServer struct {
	Host      string
	Port      int
	Authority *Authority // that issued the server's certificate, for the name db.example; nil: it has none

	// SecurePort is where a server that has no TLS at Port has it.
	SecurePort int

	user, password string
	noPatterns     bool        // rights are given for one database or all, not for those with names that begin alike
	alone          *sync.Mutex // held by the only test that may use the server; nil: it takes many
}

// MySQLDatabase is a database of one test and the user who owns it, and every database whose name begins with its own.
type MySQLDatabase struct {
	Host     string
	Port     int
	Name     string
	User     string
	Password string
}

// CreateDatabase creates an empty database for tb, owned by a user of its own. Both are dropped when tb ends, whoever
// is still connected. A server that is not up to several tests at once has the others wait here: call it once in each.
func (s *MySQLServer) CreateDatabase(tb testing.TB) MySQLDatabase {
	tb.Helper()
	if s.alone != nil {
		s.alone.Lock()
		tb.Cleanup(s.alone.Unlock)
	}
	var id [6]byte
	_, _ = rand.Read(id[:]) // never fails
	name := "test_" + hex.EncodeToString(id[:])
	d := MySQLDatabase{Host: s.Host, Port: s.Port, Name: name, User: name, Password: rand.Text()}
	tb.Cleanup(func() {
		if err := s.exec(s.drop(d)...); err != nil {
			tb.Errorf("testkit: drop database: %v", err)
		}
	})
	// The names and the password consist of letters and digits.
	rights := "`" + strings.ReplaceAll(name, "_", `\_`) + "%`.*"
	if s.noPatterns {
		rights = "*.*"
	}
	s.Exec(tb, fmt.Sprintf("CREATE DATABASE `%s` CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", name),
		fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED BY '%s'", d.User, d.Password),
		fmt.Sprintf("GRANT ALL ON %s TO '%s'@'%%'", rights, d.User))
	return d
}

// drop returns the statements that remove what the test has made.
func (s *MySQLServer) drop(d MySQLDatabase) []string {
	names := []string{d.Name}
	_ = s.with(func(ctx context.Context, db *sql.DB) error {
		rows, err := db.QueryContext(ctx, "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME LIKE '"+d.Name+"_%'")
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				return err
			}
			names = append(names, name)
		}
		return rows.Err()
	})
	statements := make([]string, 1, len(names)+1)
	statements[0] = fmt.Sprintf("DROP USER IF EXISTS '%s'@'%%'", d.User)
	for _, name := range names {
		statements = append(statements, "DROP DATABASE IF EXISTS `"+strings.ReplaceAll(name, "`", "``")+"`")
	}
	return statements
}

// Exec runs statements as the server's administrator, each on its own, and fails the test if one fails.
func (s *MySQLServer) Exec(tb testing.TB, statements ...string) {
	tb.Helper()
	if err := s.exec(statements...); err != nil {
		tb.Fatalf("testkit: %v", err)
	}
}

// Try runs a statement as the server's administrator and returns what became of it.
func (s *MySQLServer) Try(statement string) error { return s.exec(statement) }

func (s *MySQLServer) exec(statements ...string) error {
	return s.with(func(ctx context.Context, db *sql.DB) error {
		for _, statement := range statements {
			if _, err := db.ExecContext(ctx, statement); err != nil {
				return fmt.Errorf("%w in %.200s", err, statement)
			}
		}
		return nil
	})
}

// with runs f on a connection of the administrator. Tests end with cancelled contexts, clean-up may not.
func (s *MySQLServer) with(f func(context.Context, *sql.DB) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	db, err := openMySQL(MySQLDatabase{Host: s.Host, Port: s.Port, User: s.user, Password: s.password})
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	return f(ctx, db)
}

// Connect returns a pool of connections of the owner, closed when tb ends. Each has session settings of its own.
func (d MySQLDatabase) Connect(tb testing.TB) *sql.DB {
	tb.Helper()
	db, err := openMySQL(d)
	if err != nil {
		tb.Fatalf("testkit: %v", err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

func openMySQL(d MySQLDatabase) (*sql.DB, error) {
	c := mysql.NewConfig()
	c.Net, c.Addr = "tcp", net.JoinHostPort(d.Host, strconv.Itoa(d.Port))
	c.User, c.Passwd, c.DBName = d.User, d.Password, d.Name
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(2)
	return db, nil
}
