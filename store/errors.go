package store

import (
	"errors"
	"time"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store/internal/pgerr"
)

var (
	// ErrNoJob says that there is no such job row.
	ErrNoJob = errors.New("store: no such job")
	// ErrTerminal says that the job has ended already.
	ErrTerminal = errors.New("store: the job has ended")
	// ErrExhausted says that every attempt the job may have is spent.
	ErrExhausted = errors.New("store: no attempt left")
	// ErrTooEarly says that the job waits for its next attempt.
	ErrTooEarly = errors.New("store: the next attempt is not due")
	// ErrLostAttempt says that the job is no longer in the attempt the caller holds; nothing was changed.
	ErrLostAttempt = errors.New("store: the attempt is no longer current")
	// ErrCancelRequested says that the attempt is current but was asked to stop: it may only end as canceled. Nothing
	// was changed.
	ErrCancelRequested = errors.New("store: the job is to be canceled")
)

// retryAfter is what a caller is told when the database can't be used at the moment.
const retryAfter = 2 * time.Second

// changedRetry is what a caller is told whose request met a change.
const changedRetry = time.Second

// Unavailable reports whether err means that the database can't be used at the moment, rather than that it
// answered no. It is false for a caller that gave up.
func Unavailable(err error) bool { return pgerr.Of(err).Down() }

// Refused reports whether err means that the server refused the login.
func Refused(err error) bool { return pgerr.Of(err) == pgerr.Login }

// NoDatabase reports whether the server answered that it has no database of that name.
func NoDatabase(err error) bool { return pgerr.Of(err) == pgerr.NoDatabase }

// Cause returns err described by its kind alone, without the driver's or the server's words, for logs and for
// problem.Error.Err. The original stays in its chain. It returns nil for nil.
func Cause(op string, err error) error { return pgerr.Wrap(op, err) }

// mapped turns a database error into what callers may see: errors that carry a code pass, an unusable database
// is FET-1082, a lock that was not granted in time FET-0003, anything else stays an error without a code.
func mapped(op string, err error) error {
	if err == nil {
		return nil
	}
	var coded *problem.Error
	if errors.As(err, &coded) || errors.Is(err, ErrNoJob) || errors.Is(err, ErrLostAttempt) || errors.Is(err, ErrCancelRequested) {
		return err
	}
	cause := pgerr.Wrap(op, err)
	switch {
	case pgerr.Of(err).Down():
		return problem.Wrap(cause, problem.TenantUnavailable, "the tenant's database is unavailable").After(retryAfter)
	case pgerr.State(err) == lockNotAvailable:
		return problem.Wrap(cause, problem.Unavailable, "the database is busy").After(retryAfter)
	}
	return cause
}

// SQLSTATEs that mean something to the queries here.
const (
	lockNotAvailable = "55P03"
	uniqueViolation  = "23505"
)
