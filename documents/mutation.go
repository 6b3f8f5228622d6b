package documents

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
)

// The operations that heed an idempotency key. Each is one method of one route.
const (
	opCreateEnvironment = "environments.create"
	opCreateSource      = "sources.create"
	opReconnectSource   = "sources.reconnect"
	opDisconnectSource  = "sources.disconnect"
	opSync              = "sources.sync"
	opDeleteObject      = "objects.delete"
)

const (
	paramKey     = "Idempotency-Key"
	retryRunning = time.Second
	mutationTime = 30 * time.Second // a lease that no transaction outlives, as it is over with it
)

// key is an idempotency key together with what it is for. Every string is in canonical form.
type key struct {
	operation   string
	environment uuid.UUID
	subject     string
	key         uuid.UUID
	content     []string // ids of the path and members of the body
}

func (k key) scope() []byte {
	return digest(k.environment.String(), k.subject, k.operation, k.key.String())
}

func (k key) fingerprint() []byte { return digest(append([]string{k.operation}, k.content...)...) }

// digestOf is the SHA-256 of content.
func digestOf(content []byte) []byte {
	sum := sha256.Sum256(content)
	return sum[:]
}

// digest is the SHA-256 of the parts, each with its length.
func digest(parts ...string) []byte {
	h := sha256.New()
	for _, part := range parts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	return h.Sum(nil)
}

// claim is one attempt's hold of a key.
type claim struct {
	scope     []byte
	operation uuid.UUID
	attempt   int
}

// claimKey claims the key in the transaction of rows. The outcome is the claim, or the answer that an earlier attempt
// was given, or an error.
func claimKey(ctx context.Context, rows store.Documents, k key, operation uuid.UUID, lease time.Duration) (
	*claim, *store.Answer, error,
) {
	scope, ours := k.scope(), k.fingerprint()
	found, err := rows.ClaimKey(ctx, scope, ours, operation, lease, keep)
	switch {
	case err != nil:
		return nil, nil, err
	case found == nil:
		return &claim{scope: scope, operation: operation, attempt: 1}, nil, nil
	case found.Expired: // the key is free
	case subtle.ConstantTimeCompare(found.Fingerprint, ours) == 0:
		return nil, nil, &Error{Code: IdempotencyKeyReused, Param: paramKey}
	case found.Answer != nil:
		return nil, found.Answer, nil
	case !found.Lapsed:
		return nil, nil, &Error{Code: IdempotencyInProgress, OperationID: found.OperationID, RetryAfter: retryRunning}
	}
	attempt, err := rows.RenewKey(ctx, scope, ours, operation, lease, keep)
	if err != nil {
		return nil, nil, err
	}
	return &claim{scope: scope, operation: operation, attempt: attempt}, nil, nil
}

// finish stores the answer of the attempt.
func (c *claim) finish(ctx context.Context, rows store.Documents, a store.Answer) error {
	return rows.FinishKey(ctx, c.scope, c.operation, c.attempt, a)
}

// mutation is a change that takes one transaction.
type mutation[T any] struct {
	operation   string
	environment uuid.UUID
	who         Caller
	content     []string
	once        Once[T]
	change      func(rows store.Documents, operation uuid.UUID) (T, error) // operation is the id of its audit event
}

// run makes the change and its answer, or finds the answer of an earlier request.
func (m mutation[T]) run(ctx context.Context, s *Service, lease *tenant.Lease) (reply Reply, err error) {
	operation, err := s.opts.NewID()
	if err != nil {
		return Reply{}, fmt.Errorf("make an id: %w", err)
	}
	err = store.NewDocuments(lease.DB(ctx)).Atomically(ctx, func(rows store.Documents) (failed error) {
		reply, failed = m.decide(ctx, rows, operation)
		return failed
	})
	if errors.Is(err, store.ErrOutcomeUnknown) {
		return Reply{}, &Error{Code: OutcomeUnknown, OperationID: operation, RetryAfter: retryUnavailable, Err: err}
	}
	if err != nil {
		return Reply{}, err
	}
	return reply, nil
}

// decide is what happens in the transaction.
func (m mutation[T]) decide(ctx context.Context, rows store.Documents, operation uuid.UUID) (Reply, error) {
	var owned *claim
	if m.once.Key != nil {
		var kept *store.Answer
		var err error
		k := key{m.operation, m.environment, m.who.Subject, *m.once.Key, m.content}
		if owned, kept, err = claimKey(ctx, rows, k, operation, mutationTime); err != nil {
			return Reply{}, err
		}
		if kept != nil {
			return Reply{Answer: *kept, Replayed: true}, nil
		}
	}
	made, err := m.change(rows, operation)
	if err != nil {
		return Reply{}, err
	}
	answer, err := m.once.Render(made)
	if err != nil {
		return Reply{}, fmt.Errorf("render answer: %w", err)
	}
	if owned == nil {
		return Reply{Answer: answer}, nil
	}
	return Reply{Answer: answer}, owned.finish(ctx, rows, answer)
}
