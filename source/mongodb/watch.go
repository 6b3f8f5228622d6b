package mongodb

import (
	"context"
	"errors"
	"sync"

	"go.mongodb.org/mongo-driver/v2/event"

	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/source"
)

// errNoMember says that no server is what the connection's options ask for.
var errNoMember = errors.New("no server of the replica set")

// watch hears what the driver finds out about the servers. The driver itself tries a server that does not answer until
// the time is up; watch ends the opening of a session with the first failure if no server has answered yet.
type watch struct {
	giveUp context.CancelCauseFunc

	mu       sync.Mutex
	answered bool  // by any server
	up       bool  // the session is open
	failure  error // the last of a server, one that the guard refused first of all
}

func (w *watch) monitor() *event.ServerMonitor {
	return &event.ServerMonitor{
		ServerHeartbeatSucceeded: func(*event.ServerHeartbeatSucceededEvent) { w.succeed() },
		ServerHeartbeatFailed:    func(e *event.ServerHeartbeatFailedEvent) { w.fail(e.Failure) },
		TopologyDescriptionChanged: func(e *event.TopologyDescriptionChangedEvent) {
			// The driver forgets servers that belong to another replica set.
			if len(e.NewDescription.Servers) == 0 && len(e.PreviousDescription.Servers) > 0 {
				w.end(&source.Error{Category: source.CategoryUnsupported, Err: errNoMember})
			}
			if err := e.NewDescription.CompatibilityErr; err != nil {
				w.end(&source.Error{Category: source.CategoryUnsupported, Err: err})
			}
		},
	}
}

func (w *watch) succeed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answered = true
}

func (w *watch) fail(err error) {
	// The driver breaks off its own look at a server when a connection to it fails elsewhere. It looks again at once, and
	// then tells why.
	if errors.Is(err, context.Canceled) {
		return
	}
	w.mu.Lock()
	if w.failure == nil || !errors.Is(w.failure, dial.ErrNotAllowed) {
		w.failure = err
	}
	alone := !w.answered
	w.mu.Unlock()
	if alone {
		w.end(err)
	}
}

func (w *watch) end(err error) {
	w.mu.Lock()
	up := w.up
	w.mu.Unlock()
	if !up {
		w.giveUp(err)
	}
}

func (w *watch) established() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.up = true
}

// lastFailure returns the last failure of a server; nil if there was none.
func (w *watch) lastFailure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure
}

// explain says why a session did not open. The time may be up only because a member could not be reached.
func (w *watch) explain(ctx context.Context, err error) *source.Error {
	if cause := context.Cause(ctx); cause != nil && !isContext(cause) {
		return classify(context.WithoutCancel(ctx), cause, true)
	}
	if last := w.lastFailure(); last != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		if e := classify(context.WithoutCancel(ctx), last, true); e.Category != source.CategoryOther {
			return e
		}
	}
	return classify(ctx, err, true)
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
