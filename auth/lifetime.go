package auth

import (
	"context"
	"sync"
	"time"
)

// lifetime is the span from New to Close. Work begun in it is canceled and waited for at its end.
type lifetime struct {
	ctx    context.Context
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	work   sync.WaitGroup
}

func newLifetime(ctx context.Context) *lifetime {
	l := &lifetime{}
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return l
}

// begin registers a piece of work; false once the lifetime has ended. Every true is followed by work.Done.
func (l *lifetime) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.work.Add(1)
	return true
}

// run starts f in a goroutine of its own; false once the lifetime has ended.
func (l *lifetime) run(f func(ctx context.Context)) bool {
	if !l.begin() {
		return false
	}
	go func() {
		defer l.work.Done()
		f(l.ctx)
	}()
	return true
}

// detach returns a context that has ctx's values but ends with the lifetime or the timeout instead of with ctx.
func (l *lifetime) detach(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	stop := context.AfterFunc(l.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// close ends the lifetime and waits for its work. Calling it again is harmless.
func (l *lifetime) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	l.work.Wait()
}
