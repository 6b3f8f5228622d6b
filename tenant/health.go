package tenant

import (
	"errors"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
)

const (
	minRetry      = time.Second     // after the first failure
	maxRetry      = 5 * time.Second // after several
	minLoginRetry = 5 * time.Second
	maxLoginRetry = 5 * time.Minute // accounts get locked by refused logins
)

// health is what is known of one tenant's database server at one revision of the registry's record: a breaker, and
// when it may be dialled again after a failure. The zero value of state is "nothing was ever wrong".
type health struct {
	failures uint32
	timeout  time.Duration
	now      func() time.Time

	mu       sync.Mutex
	breaker  *gobreaker.TwoStepCircuitBreaker[struct{}] // nil until something fails
	opened   time.Time                                  // when the breaker opened last
	notUntil time.Time                                  // no dialling before that
	row      int                                        // failed dials in a row
	logins   int                                        // refused logins in a row
}

// well reports whether leases may be handed out without trying the database first.
func (h *health) well() bool {
	h.mu.Lock()
	b := h.breaker
	h.mu.Unlock()
	return b == nil || b.State() == gobreaker.StateClosed
}

// state names the breaker's state.
func (h *health) state() string {
	h.mu.Lock()
	b := h.breaker
	h.mu.Unlock()
	if b == nil {
		return gobreaker.StateClosed.String()
	}
	return b.State().String()
}

// mayDial returns nil, or why the server must not be dialled now.
func (h *health) mayDial() error {
	h.mu.Lock()
	b, wait := h.breaker, h.notUntil.Sub(h.now())
	h.mu.Unlock()
	if wait > 0 {
		return unavailable(errBackoff, wait)
	}
	if b != nil && b.State() == gobreaker.StateOpen {
		return unavailable(gobreaker.ErrOpenState, h.reopens())
	}
	return nil
}

var errBackoff = errors.New("tenant: waiting after a failure")

// errNotCounted is the outcome of a test that says nothing about the server.
var errNotCounted = errors.New("tenant: the test was not conclusive")

// try asks for the right to use the server as the test that closes the breaker or opens it for another while.
// done must be called with the outcome.
func (h *health) try() (done func(error), err error) {
	h.mu.Lock()
	b := h.breakerLocked()
	h.mu.Unlock()
	done, err = b.Allow()
	if err != nil {
		return nil, unavailable(err, h.reopens())
	}
	return done, nil
}

// report tells of something that happened to a connection outside a test. It counts while the breaker is closed;
// in the other states only the test decides.
func (h *health) report(err error) {
	h.mu.Lock()
	b := h.breaker
	if b == nil && err != nil {
		b = h.breakerLocked()
	}
	h.mu.Unlock()
	if b != nil && b.State() == gobreaker.StateClosed {
		if done, refused := b.Allow(); refused == nil {
			done(err)
		}
	}
	h.note(err)
}

// note sets when the server may be dialled again.
func (h *health) note(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.row, h.logins, h.notUntil = 0, 0, time.Time{}
		return
	}
	h.row++
	wait := backoff(minRetry, maxRetry, h.row)
	if store.Refused(err) {
		h.logins++
		wait = backoff(minLoginRetry, maxLoginRetry, h.logins)
	}
	h.notUntil = h.now().Add(wait)
}

// backoff doubles with every failure in a row.
func backoff(least, most time.Duration, row int) time.Duration {
	wait := least
	for range row - 1 {
		if wait *= 2; wait >= most {
			return most
		}
	}
	return wait
}

func (h *health) breakerLocked() *gobreaker.TwoStepCircuitBreaker[struct{}] {
	if h.breaker == nil {
		h.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
			Timeout:     h.timeout,
			IsExcluded:  func(err error) bool { return errors.Is(err, errNotCounted) },
			ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= h.failures },
			OnStateChange: func(_ string, _, to gobreaker.State) {
				if to == gobreaker.StateOpen {
					h.mu.Lock()
					h.opened = h.now()
					h.mu.Unlock()
				}
			},
		})
	}
	return h.breaker
}

// reopens returns how long the open breaker will refuse yet, at least a second.
func (h *health) reopens() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(time.Second, h.opened.Add(h.timeout).Sub(h.now()))
}

// unavailable is the answer about a tenant's database that can't be used at the moment.
func unavailable(cause error, after time.Duration) *problem.Error {
	return problem.Wrap(cause, problem.TenantUnavailable, "the tenant's database is unavailable").After(after)
}

// busy is the answer when one of our own bounds is reached.
func busy(cause error) *problem.Error {
	return problem.Wrap(cause, problem.Unavailable, "the service is busy").After(time.Second)
}
