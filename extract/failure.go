package extract

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/results"
	"github.com/fetcherhq/fetcher/source"
)

// Failure is why a run ended without a result. All but Err may be shown to the tenant.
type Failure struct { //nolint:errname // it is what a failed job shows, and an error besides
	Code       problem.Code
	Message    string // names datasource, table, field and limit where they matter; never a value or an address
	Datasource string
	Table      string
	Transient  bool  // another attempt may succeed
	Err        error // the cause, for logs
}

// Error describes the failure for logs.
func (f *Failure) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "extract: %s: %s", f.Code, f.Message)
	if f.Err != nil {
		b.WriteString(": " + f.Err.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// place is where in a job something happens.
type place struct{ datasource, table string }

func (p place) String() string {
	if p.table == "" {
		return fmt.Sprintf("datasource %q", p.datasource)
	}
	return fmt.Sprintf("datasource %q, table %q", p.datasource, p.table)
}

func (p place) failure(code problem.Code, err error, format string, args ...any) *Failure {
	return &Failure{
		Code: code, Message: fmt.Sprintf(format, args...) + ": " + p.String(),
		Datasource: p.datasource, Table: p.table, Err: err,
	}
}

// asFailure gives err, which occurred at p, a code.
func asFailure(err error, p place) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	if s, ok := errors.AsType[*source.Error](err); ok {
		f = ofSource(s, p)
		f.Err = err
		return f
	}
	f = p.failure(problem.Internal, err, unforeseen)
	f.Transient = true
	return f
}

// unforeseen is all that is told of an error without a code. It may have been bad luck, so another attempt follows.
const unforeseen = "something unforeseen happened"

func ofSource(s *source.Error, p place) *Failure {
	f := func(code problem.Code, message string) *Failure {
		f := p.failure(code, nil, "%s", message)
		f.Transient = s.Transient
		return f
	}
	switch s.Category {
	case source.CategoryNotAllowed:
		return f(problem.HostNotAllowed, "the host may not be connected to")
	case source.CategoryAuth:
		return f(problem.JobRefused, "the database refused the login")
	case source.CategoryRights:
		return f(problem.JobRefused, "the database refused the right to read")
	case source.CategoryObject:
		return f(problem.JobUnknownField, "a table or field does not exist any more")
	case source.CategoryBroken:
		return f(problem.SourceUnreachable, "the connection to the database was lost")
	case source.CategoryInput:
		return f(problem.DataRequestInvalid, "the database could not compare a filter's value")
	case source.CategoryValue:
		// No published code says this. The source was reached and answers the same every time, so it refuses rather
		// than being unreachable; the request names nothing unknown and no format is at fault.
		return f(problem.JobRefused, "the database could not evaluate the query")
	case source.CategoryUnlisted:
		return f(problem.JobFormat, "a row has a field that the schema does not show, for which the format has no place; name the fields")
	case source.CategoryDNS, source.CategoryRefused, source.CategoryTimeout, source.CategoryTLS,
		source.CategoryDatabase, source.CategoryUnsupported:
		return f(problem.SourceUnreachable, "the database can't be used ("+string(s.Category)+")")
	default:
		return f(problem.SourceUnreachable, "the database failed")
	}
}

// ofStorage gives an error of the results storage a code. All of them may pass, one by one or with the next attempt.
func ofStorage(err error) *Failure {
	f := &Failure{Code: problem.Unavailable, Message: "the results storage is unavailable", Transient: true, Err: err}
	if !errors.Is(err, results.ErrUnavailable) && !errors.Is(err, results.ErrExists) {
		f.Code, f.Message = problem.Internal, unforeseen
	}
	return f
}

// ofReclaim gives an error of clearing the object's key a code. owned is what asking for the key's ownership gave.
func ofReclaim(err, owned error) *Failure {
	if owned != nil {
		return &Failure{Code: problem.Unavailable, Message: "the attempt could not be continued", Transient: true, Err: owned}
	}
	return ofStorage(err)
}

// guard turns a panic, of a driver or an encoder, into a failure of this run alone.
func guard(f func() error) (err error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		err = &Failure{
			Code: problem.Internal, Message: unforeseen, Transient: true, Err: fmt.Errorf("%w\n%s", problem.Panicked(v), debug.Stack()),
		}
	}()
	return f()
}

// nearDeadline is how much earlier than the deadline a server may end a statement that was limited to it.
const nearDeadline = 2 * time.Second

// settle decides what a run that failed with err failed of. A run that reached its deadline timed out, whatever
// broke because of that; one whose caller gave up failed of that.
func settle(ctx, parent context.Context, deadline time.Time, err error) *Failure {
	f := asFailure(err, place{})
	var s *source.Error
	late := !deadline.IsZero() && time.Until(deadline) < nearDeadline
	timedOut := errors.As(err, &s) && s.Category == source.CategoryTimeout
	switch {
	case parent.Err() != nil:
		return &Failure{Code: problem.Internal, Message: "the attempt was given up", Transient: true, Err: context.Cause(parent)}
	case errors.Is(ctx.Err(), context.DeadlineExceeded), late && timedOut:
		t := &Failure{Code: problem.JobTimedOut, Message: "the job ran longer than JOB_TIMEOUT allows", Err: err}
		t.Datasource, t.Table = f.Datasource, f.Table
		return t
	}
	return f
}
