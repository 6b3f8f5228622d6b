// Package idempotency owns what makes a request with an Idempotency-Key take effect once: who holds a key, how long,
// and which answer it is given again.
//
// It touches the tenant's store it is handed and the key ring. It promises that at any instant at most one attempt
// holds a key, that an attempt which lost it stores nothing, and that what is kept of a request tells nothing of it to
// whoever reads the database.
//
// Only successful answers are kept. An attempt that fails frees its key, because it created nothing and the next one may
// succeed; one that is never heard of again loses the key when its lease ends.
package idempotency

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/store"
)

const (
	// Header carries the key.
	Header = "Idempotency-Key"

	maxKey = 255

	// lease is how long an attempt may take before another one may have its key. One that takes longer stores nothing.
	lease = 30 * time.Second

	keep = 24 * time.Hour

	retryRunning = time.Second

	// takeovers bounds how often an attempt tries to take over a record that keeps changing hands.
	takeovers = 3

	fieldFingerprint = "idempotency"
)

// ParseKey reads the lines of the header: none is no key; one of 1 to 255 visible ASCII characters, blanks around it
// aside, is one. Anything else is FET-0403.
func ParseKey(lines []string) (string, error) {
	if len(lines) == 0 {
		return "", nil
	}
	key := lines[0]
	valid := len(lines) == 1 && key != "" && len(key) <= maxKey
	for i := range len(key) {
		valid = valid && key[i] > ' ' && key[i] <= '~'
	}
	if !valid {
		return "", problem.New(problem.HeaderInvalid, "the header Idempotency-Key is not valid").With(
			problem.Field{Location: "header." + Header, Message: "must be given once, 1 to 255 visible ASCII characters"})
	}
	return key, nil
}

// Request is a request that carries a key. Two are the same when all members are.
type Request struct {
	Tenant    string
	Subject   string
	Operation string
	Key       string
	Content   [][]byte // what the answer depends on: the body, and headers that say what is done with it
}

// scope tells the keys of all subjects and operations of a tenant apart.
func (r Request) scope() []byte {
	return digest([]byte(r.Subject), []byte(r.Operation), []byte(r.Key))
}

// digest is the SHA-256 of the parts, each with its length.
func digest(parts ...[]byte) []byte {
	h := sha256.New()
	for _, part := range parts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write(part)
	}
	return h.Sum(nil)
}

// Service decides about keys. It is safe for concurrent use.
type Service struct{ keys *secret.Keyring }

// New returns a service that seals what it keeps of requests with keys.
func New(keys *secret.Keyring) (*Service, error) {
	if keys == nil {
		return nil, errors.New("idempotency: a key ring is needed")
	}
	return &Service{keys: keys}, nil
}

// Begin claims the request's key. The outcome is a claim, which the caller must release in any case, or the answer that
// an earlier attempt was given, or an error: FET-0419 when the key was used for something else, FET-0004 while another
// attempt holds it.
func (s *Service) Begin(ctx context.Context, rows store.Idempotency, r Request) (*Claim, *store.Answer, error) {
	scope, ours := r.scope(), digest(r.Content...)
	sealed, err := s.keys.Seal(secretScope(r.Tenant, scope), ours)
	if err != nil {
		return nil, nil, fmt.Errorf("seal fingerprint: %w", err)
	}
	claim := &Claim{rows: rows, scope: scope, token: uuid.New()}
	for range takeovers {
		found, err := rows.Open(ctx, scope, claim.token, sealed, lease, keep)
		if err != nil {
			return nil, nil, err
		}
		if found == nil {
			return claim, nil, nil
		}
		answer, err := s.judge(r.Tenant, found, ours)
		if err != nil || answer != nil {
			return nil, answer, err
		}
		taken, err := rows.TakeOver(ctx, found, claim.token, sealed, lease, keep)
		if err != nil {
			return nil, nil, err
		}
		if taken {
			return claim, nil, nil
		}
	}
	return nil, nil, running()
}

// judge says what a record means for a request: the answer to give again, an error, or neither when the request may
// have the key.
func (s *Service) judge(tenant string, found *store.IdempotencyRecord, ours []byte) (*store.Answer, error) {
	if found.Expired {
		return nil, nil //nolint:nilnil // the key is free
	}
	theirs, err := s.keys.Open(secretScope(tenant, found.Scope), found.Fingerprint)
	if err != nil {
		return nil, fmt.Errorf("open fingerprint: %w", err)
	}
	switch {
	case subtle.ConstantTimeCompare(theirs, ours) == 0:
		return nil, problem.New(problem.IdempotencyKeyReused, "the idempotency key was used for another request").With(
			problem.Field{Location: "header." + Header, Message: "was used for another request"})
	case found.Answer == nil && !found.Lapsed:
		return nil, running()
	default:
		return found.Answer, nil
	}
}

func running() error {
	return problem.New(problem.Conflict, "a request with this idempotency key is being processed").After(retryRunning)
}

func secretScope(tenant string, scope []byte) secret.Scope {
	return secret.Scope{Tenant: tenant, Object: hex.EncodeToString(scope), Field: fieldFingerprint}
}

// Claim is one attempt's hold of a key.
type Claim struct {
	rows  store.Idempotency
	scope []byte
	token uuid.UUID
}

// Record keeps the answer of the attempt, through rows of the transaction that makes what it tells of. FET-0004 when the
// attempt has lost the key: then the transaction must not commit.
func (c *Claim) Record(ctx context.Context, rows store.Idempotency, a store.Answer) error {
	err := rows.Finish(ctx, c.scope, c.token, a)
	if errors.Is(err, store.ErrClaimTaken) {
		return problem.Wrap(err, problem.Conflict, "another request with this idempotency key took over").After(retryRunning)
	}
	return err
}

// Release frees the key unless an answer was recorded. It is meant to be deferred, and heeds ctx no more than for its
// values: the client may be gone.
func (c *Claim) Release(ctx context.Context) error {
	const patience = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return c.rows.Release(ctx, c.scope, c.token)
}

// Reencrypt seals what is kept of a request anew, under the current key, and reports whether it was not so already.
func Reencrypt(keys *secret.Keyring, tenant string, scope, fingerprint []byte) (sealed []byte, changed bool, err error) {
	return keys.Reseal(secretScope(tenant, scope), fingerprint)
}
