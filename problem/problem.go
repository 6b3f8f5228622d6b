// Package problem owns the catalogue of stable error codes and the value that carries one.
//
// An error is born as a *Error where its cause is known and is turned into an answer once, at the edge.
// The package knows nothing of HTTP beyond the status number that belongs to a code, and imports nothing of ours.
// Detail and Fields are safe to show to a caller; Err is the cause, kept for logs only.
package problem

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Error is a failure with a stable code. Detail, Fields and RetryAfter may be shown to the caller; Err never is.
type Error struct {
	Code       Code
	Detail     string
	Fields     []Field
	RetryAfter time.Duration // > 0: when a retry may succeed
	Err        error         // the cause; never leaves the process
}

// Field names one faulty part of a request.
type Field struct {
	Location string `json:"location"` // body.configName, query.limit, header.X-Product-Name, path.id
	Message  string `json:"message"`
	Value    any    `json:"value,omitempty"` // what was sent; left out for secrets
}

// New returns an error with the code and a detail fit for the caller.
func New(code Code, detail string) *Error { return &Error{Code: code, Detail: detail} }

// Newf is New with a format.
func Newf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// Wrap returns an error with the code whose cause is err. The cause shows in logs and errors.Is, never in Detail.
func Wrap(err error, code Code, detail string) *Error {
	return &Error{Code: code, Detail: detail, Err: err}
}

// With returns a copy that also names the given fields, sorted by location.
func (e *Error) With(fields ...Field) *Error {
	c := *e
	c.Fields = slices.Concat(e.Fields, fields)
	slices.SortStableFunc(c.Fields, func(a, b Field) int { return strings.Compare(a.Location, b.Location) })
	return &c
}

// After returns a copy that tells the caller when a retry may succeed.
func (e *Error) After(d time.Duration) *Error {
	c := *e
	c.RetryAfter = d
	return &c
}

// Error describes the failure for logs, with its cause.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(string(e.Code))
	b.WriteString(": ")
	b.WriteString(e.Detail)
	for _, f := range e.Fields {
		fmt.Fprintf(&b, " [%s: %s]", f.Location, f.Message)
	}
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is a *Error with the same code, so that errors.Is(err, problem.New(code, "")) works.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// CodeOf returns the code of the first *Error in err's chain, or Internal when there is none.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Internal
}
