package handlers

import (
	"context"
	"sync"
	"time"
)

// sharedResult runs a function for any number of callers at once and keeps what it returned for a while, so that a
// thousand callers a second cost one run. The run does not end with the caller that started it.
type sharedResult[T any] struct {
	keep time.Duration
	run  func(ctx context.Context) (T, error)

	mu      sync.Mutex
	current *sharedRun[T]
}

type sharedRun[T any] struct {
	done  chan struct{}
	ended time.Time // valid after done
	value T
	err   error
}

func newShared[T any](keep time.Duration, run func(ctx context.Context) (T, error)) *sharedResult[T] {
	return &sharedResult[T]{keep: keep, run: run}
}

// get returns the shared value, which callers must not change. The error is run's, or that of the caller's context.
func (s *sharedResult[T]) get(ctx context.Context) (T, error) {
	r := s.join(ctx)
	select {
	case <-r.done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

func (s *sharedResult[T]) join(ctx context.Context) *sharedRun[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.current; r != nil {
		select {
		case <-r.done:
			if time.Since(r.ended) < s.keep {
				return r
			}
		default:
			return r
		}
	}
	r := &sharedRun[T]{done: make(chan struct{})}
	s.current = r
	go func() {
		defer close(r.done)
		r.value, r.err = s.run(context.WithoutCancel(ctx))
		r.ended = time.Now()
	}()
	return r
}
