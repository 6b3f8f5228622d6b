package postgres

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/source"
)

// SQLSTATEs that are looked at one by one.
const (
	codeInvalidPassword = "28P01"
	codeNoDatabase      = "3D000"
	codeNoRights        = "42501"
	codeTooMany         = "53300"
	codeStarting        = "57P03"
	codeProtocol        = "08P01"
	codeCanceled        = "57014"
	codeDropped         = "57P04"
	codeNotReady        = "55000"
)

// classify turns err into a *source.Error. opening says that no session existed yet.
func classify(ctx context.Context, err error, opening bool) *source.Error {
	if known := (*source.Error)(nil); errors.As(err, &known) {
		return known
	}
	switch {
	case errors.Is(err, dial.ErrNotAllowed):
		return &source.Error{Category: source.CategoryNotAllowed, Err: err}
	case errors.Is(ctx.Err(), context.Canceled):
		return &source.Error{Category: source.CategoryOther, Err: errors.Join(ctx.Err(), err)}
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &source.Error{Category: source.CategoryTimeout, Transient: true, Err: errors.Join(ctx.Err(), err)}
	}
	if server := (*pgconn.PgError)(nil); errors.As(err, &server) {
		category, transient := classifyCode(server.Code, opening)
		return &source.Error{Category: category, Transient: transient, Code: sqlState(server.Code), Err: err}
	}
	category, transient := classifyNetwork(err, opening)
	return &source.Error{Category: category, Transient: transient, Err: err}
}

// sqlState returns code if it looks like one: whoever answers may not be a server that keeps secrets out of it.
func sqlState(code string) string {
	const size = 5
	if len(code) != size || strings.Trim(code, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return ""
	}
	return code
}

// inputError is the server's refusal of a parameter, or nil if e is about something else: what a type's input can say
// of a text, such as a letter that the database's encoding lacks. The rest of its class comes from the query itself.
func inputError(e *pgconn.PgError) *source.Error {
	switch e.Code {
	case "22P02", "22P05", "22021", "22003", "22007", "22008", "22015":
		return &source.Error{Category: source.CategoryInput, Code: e.Code, Err: e}
	}
	return nil
}

// classifyCode sorts what the server itself said.
func classifyCode(code string, opening bool) (source.Category, bool) {
	if opening && (code == codeNoRights || code == codeNotReady) { // to connect; a template
		return source.CategoryDatabase, false
	}
	switch code {
	case codeNoDatabase, codeDropped:
		return source.CategoryDatabase, false
	case codeNoRights:
		return source.CategoryRights, false
	case codeTooMany, codeStarting:
		return source.CategoryRefused, true
	case codeCanceled, "57P05", "25P03": // statement_timeout and idle timeouts, ours or the server's
		return source.CategoryTimeout, true
	case codeProtocol: // how poolers refuse what they don't know
		return source.CategoryUnsupported, false
	case "42P01", "42703", "42704", "3F000":
		return source.CategoryObject, false
	case "55P03", "72000": // lock not available, snapshot too old
		return source.CategoryOther, true
	}
	return classifyClass(code, opening)
}

func classifyClass(code string, opening bool) (source.Category, bool) {
	switch code[:min(len(code), 2)] {
	case "28":
		return source.CategoryAuth, false
	case "08", "57": // connection exceptions; shutdown, crash
		if opening {
			return source.CategoryRefused, true
		}
		return source.CategoryBroken, true
	case "21", "22", "25", "38", "39", "42", "44", "54", "P0": // the data, or what a view is made of
		if !opening {
			return source.CategoryValue, false
		}
	case "40", "53": // deadlock, serialization failure, recovery conflict; resources
		return source.CategoryOther, true
	case "0A":
		return source.CategoryUnsupported, false
	}
	return source.CategoryOther, false
}

// classifyNetwork sorts what the client side found.
func classifyNetwork(err error, opening bool) (source.Category, bool) {
	var encryption *tlsError
	switch {
	case source.NameUnknown(err):
		return source.CategoryDNS, true
	case source.TimedOut(err), pgconn.Timeout(err):
		return source.CategoryTimeout, true
	case errors.As(err, &encryption), source.TLSAlert(err):
		return source.CategoryTLS, false
	case source.Unreached(err):
		return source.CategoryRefused, true
	case source.ConnectionEnded(err), errors.Is(err, pgconn.ErrConnClosed):
		if opening {
			return source.CategoryRefused, true
		}
		return source.CategoryBroken, true
	}
	if opening { // what a server says before it is one
		return source.CategoryUnsupported, false
	}
	return source.CategoryOther, false
}
