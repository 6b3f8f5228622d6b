package auth

import (
	"context"
	"strings"
	"time"
)

// State tells whether the identity service can be used.
type State string

// The states.
const (
	StateUp       State = "up"       // it answers and its keys are here
	StateDegraded State = "degraded" // it fails, but its keys are here: known tokens work
	StateDown     State = "down"     // there are no keys
	StateNone     State = "n/a"      // authentication is disabled
)

// statusTimeout bounds a probe of the identity service.
const statusTimeout = time.Second

// Status is the identity service's health as readiness reports it.
type Status struct {
	State  State
	TLS    bool   // it is addressed by https
	Reason string // why it is not up: a safe category, no address
}

// Status asks the identity service for a sign of life, for a second at most.
func (a *Authenticator) Status(ctx context.Context) Status {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	s := Status{State: StateUp, TLS: strings.HasPrefix(a.keys.source.address, schemeTLS+":")}
	if err := a.keys.source.probe(ctx); err != nil {
		s.State, s.Reason = StateDegraded, err.Error()
	}
	if a.keys.set.Load() == nil {
		s.State = StateDown
		if s.Reason == "" {
			s.Reason = "no keys"
		}
	}
	return s
}
