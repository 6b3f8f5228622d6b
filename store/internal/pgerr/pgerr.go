// Package pgerr tells apart what can go wrong between us and a Postgres server of ours, without repeating the
// server's or the driver's words: those carry host names, user names and values.
package pgerr

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

// Category is the kind of a failure, fit for logs.
type Category string

// The categories.
const (
	Canceled    Category = "canceled"    // by the caller
	Timeout     Category = "timeout"     // no answer in time
	Refused     Category = "refused"     // nobody listens
	DNS         Category = "dns"         // the name does not resolve
	TLS         Category = "tls"         // no acceptable encryption
	Login       Category = "login"       // user or password refused
	NoDatabase  Category = "database"    // the database does not exist
	Full        Category = "full"        // the server has no connection left
	Unreachable Category = "unreachable" // connection lost, server starting or stopping
	Statement   Category = "statement"   // the server refused a statement
	Other       Category = "other"
)

// Error is a failure described by its category and SQLSTATE only. The driver's error is its cause.
type Error struct {
	Op       string
	Category Category
	State    string // SQLSTATE, when the server gave one
	Err      error
}

// Wrap describes err, which happened during op. It returns nil for nil.
func Wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*Error](err); ok {
		return &Error{Op: op, Category: known.Category, State: known.State, Err: err}
	}
	return &Error{Op: op, Category: Of(err), State: State(err), Err: err}
}

// Error names the operation, the category and the SQLSTATE.
func (e *Error) Error() string {
	s := e.Op + ": " + string(e.Category)
	if e.State != "" {
		s += " (SQLSTATE " + e.State + ")"
	}
	return s
}

// Unwrap returns the driver's error.
func (e *Error) Unwrap() error { return e.Err }

// State returns the SQLSTATE of err, or "".
func State(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code
	}
	return ""
}

// Constraint returns the name of the constraint err violates, or "".
func Constraint(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.ConstraintName
	}
	return ""
}

// Of returns the category of err.
func Of(err error) Category {
	if known, ok := errors.AsType[*Error](err); ok {
		return known.Category
	}
	if state := State(err); state != "" {
		return ofState(state)
	}
	return ofNetwork(err)
}

// Down reports whether err means that the server can't be used at the moment, whatever was asked of it.
func (c Category) Down() bool {
	switch c {
	case Timeout, Refused, DNS, TLS, Login, NoDatabase, Full, Unreachable:
		return true
	default:
		return false
	}
}

func ofState(state string) Category {
	switch state {
	case "28P01", "28000":
		return Login
	case "3D000":
		return NoDatabase
	case "53300":
		return Full
	case "57P01", "57P02", "57P03", "57P05":
		return Unreachable
	}
	if state[:2] == "08" {
		return Unreachable
	}
	return Statement
}

func ofNetwork(err error) Category {
	var (
		dns       *net.DNSError
		timeout   net.Error
		operation *net.OpError
		record    tls.RecordHeaderError
		verify    *tls.CertificateVerificationError
		authority x509.UnknownAuthorityError
		connect   *pgconn.ConnectError
	)
	switch {
	case errors.Is(err, context.Canceled):
		return Canceled
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return Timeout
	case errors.As(err, &dns):
		return DNS
	case errors.As(err, &record), errors.As(err, &verify), errors.As(err, &authority):
		return TLS
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	case errors.As(err, &timeout) && timeout.Timeout():
		return Timeout
	case errors.As(err, &operation), errors.As(err, &connect), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, net.ErrClosed), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone), pgconn.SafeToRetry(err):
		return Unreachable
	}
	return Other
}
