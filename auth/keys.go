package auth

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/MicahParks/jwkset"
	"golang.org/x/time/rate"
)

const (
	// unknownKeyInterval is how often tokens with unknown keys may make us ask the identity service.
	unknownKeyInterval = 10 * time.Second
	// The first and the longest wait before a failed background refresh is tried again.
	firstRetry, lastRetry = time.Second, 30 * time.Second
)

// keysError is the cause when a key can't be looked up because the identity service failed.
type keysError struct{ cause error }

func (e *keysError) Error() string { return "keys unavailable: " + e.cause.Error() }

func (e *keysError) Unwrap() error { return e.cause }

// keyStore holds the identity service's keys: the storage behind keyfunc. Reading a known key takes no lock.
//
// It differs from jwkset's own client in three things: an unknown key that arrives during a refresh waits for it
// instead of being refused by the rate limit, it need not know the key set's address at the start, and it tells "no such
// key" from "could not ask".
type keyStore struct {
	jwkset.Storage // for the methods that write or export; keys live in set alone

	source   *source
	limit    *rate.Limiter
	interval time.Duration
	timeout  time.Duration // of one refresh, discovery included
	now      func() time.Time
	life     *lifetime
	log      *slog.Logger
	metrics  *metrics

	set atomic.Pointer[keySet]

	mu      sync.Mutex
	running *refresh // nil: none
	lastErr error    // of the refresh that ended last
}

// refresh is one run of asking the identity service.
type refresh struct {
	done chan struct{}
	err  error // valid once done is closed
}

// trigger says what a refresh was made for.
type trigger string

const (
	byTime       trigger = "time"
	byUnknownKey trigger = "unknown_key"
)

func (s *keyStore) generation() uint64 {
	if set := s.set.Load(); set != nil {
		return set.generation
	}
	return 0
}

// issuer returns the issuer tokens must have, or nothing if none is known.
func (s *keyStore) issuer() string {
	if set := s.set.Load(); set != nil {
		return set.issuer
	}
	return ""
}

// KeyRead returns a key by its id, asking the identity service if it is unknown and the rate limit permits.
func (s *keyStore) KeyRead(ctx context.Context, kid string) (jwkset.JWK, error) {
	if k, ok := s.set.Load().find(kid); ok {
		return k, nil
	}
	err := s.refreshUnknown(ctx)
	if k, ok := s.set.Load().find(kid); ok {
		return k, nil
	}
	if err != nil {
		return jwkset.JWK{}, err
	}
	return jwkset.JWK{}, jwkset.ErrKeyNotFound
}

// KeyReadAll returns all keys, for tokens that name none.
func (s *keyStore) KeyReadAll(ctx context.Context) ([]jwkset.JWK, error) {
	set := s.set.Load()
	if set == nil {
		if err := s.refreshUnknown(ctx); err != nil {
			return nil, err
		}
		set = s.set.Load()
	}
	if set == nil || len(set.keys) == 0 {
		return nil, jwkset.ErrKeyNotFound
	}
	return set.keys, nil
}

// refreshUnknown joins the refresh that is running or, at most once per unknownKeyInterval, starts one. The error is
// that of the latest refresh, whoever made it.
func (s *keyStore) refreshUnknown(ctx context.Context) error {
	s.mu.Lock()
	r := s.running
	if r == nil {
		if !s.limit.AllowN(s.now(), 1) {
			err := s.lastErr
			s.mu.Unlock()
			return err
		}
		r = s.start(byUnknownKey)
	}
	s.mu.Unlock()
	return r.wait(ctx)
}

// refreshNow joins the refresh that is running or starts one.
func (s *keyStore) refreshNow() *refresh {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		return s.running
	}
	return s.start(byTime)
}

func (r *refresh) wait(ctx context.Context) error {
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return &keysError{cause: ctx.Err()}
	}
}

// start begins a refresh that outlives its caller. The lock is held.
func (s *keyStore) start(why trigger) *refresh {
	r := &refresh{done: make(chan struct{})}
	ok := s.life.run(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, s.timeout)
		defer cancel()
		err := s.fetch(ctx, why)
		s.metrics.refreshed(ctx, why, err)
		s.mu.Lock()
		s.running, s.lastErr, r.err = nil, err, err
		s.mu.Unlock()
		close(r.done)
	})
	if !ok {
		r.err = &keysError{cause: ErrClosed}
		close(r.done)
		return r
	}
	s.running = r
	return r
}

// fetch replaces the set by what the identity service answers, and keeps the old one if it fails.
func (s *keyStore) fetch(ctx context.Context, why trigger) error {
	old := s.set.Load()
	got, err := s.source.fetch(ctx, why == byTime)
	if err == nil {
		var set *keySet
		if set, err = newKeySet(got.keys, got.issuer, old); err == nil {
			s.set.Store(set)
		}
	}
	if err != nil {
		s.log.WarnContext(ctx, "identity service: keys not refreshed",
			"cause", err.Error(), "trigger", string(why), "have_keys", old != nil)
		return &keysError{cause: fmt.Errorf("refresh keys: %w", err)}
	}
	if old == nil || got.skipped > 0 {
		s.log.InfoContext(ctx, "identity service: keys loaded", "count", len(got.keys), "unusable", got.skipped)
	}
	return nil
}

// run follows the first refresh by others until ctx ends: at the interval, or sooner after a failure.
func (s *keyStore) run(ctx context.Context, r *refresh) {
	retry := firstRetry
	for ; ; r = s.refreshNow() {
		wait := s.interval
		if err := r.wait(ctx); err != nil {
			wait = min(retry, s.interval)
			retry = min(2*retry, lastRetry)
		} else {
			retry = firstRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}
