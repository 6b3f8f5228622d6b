package results

import (
	"context"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"

	"github.com/fetcherhq/fetcher/secret"
)

// anyIdentity opens what was encrypted to the tenant under any key of the ring, the current one first: an object may have
// been encrypted anew since its facts were read.
type anyIdentity struct {
	keys    *secret.Keyring
	tenant  string
	missing error // what to say when none fits, if a key is missing that may have
}

// Unwrap implements age.Identity.
func (a anyIdentity) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	for _, version := range append([]int{a.keys.CurrentVersion()}, a.keys.Versions()...) {
		identity, err := a.keys.ResultIdentity(version, a.tenant)
		if err != nil {
			return nil, err
		}
		key, err := identity.Unwrap(stanzas)
		if !errors.Is(err, age.ErrIncorrectIdentity) {
			return key, err
		}
	}
	if a.missing != nil {
		return nil, a.missing
	}
	return nil, age.ErrIncorrectIdentity
}

// Reencrypt encrypts the tenant's object under key anew, with the current key of the ring, and reports whether it was not
// so already. The plaintext, and with it every digest, stays the same. The new object takes the place of the old one at
// once; a reader that is at the old one goes on with it or fails. ErrGone: there is no such object. ErrTampered: it can't
// be decrypted with any key of the ring, and is left as it is.
func (s *Store) Reencrypt(ctx context.Context, tenant, key string) (bool, error) {
	current, err := s.keys.ResultIdentity(s.keys.CurrentVersion(), tenant)
	if err != nil {
		return false, fmt.Errorf("reencrypt object: %w", err)
	}
	object, err := s.bucket.NewReader(ctx, key, nil)
	if err != nil {
		return false, storageError("open", err)
	}
	defer func() { _ = object.Close() }()
	src := &source{r: object}
	foreign := &unlessCurrent{current: current, others: anyIdentity{keys: s.keys, tenant: tenant}}
	plain, err := age.Decrypt(src, foreign)
	if foreign.isCurrent {
		return false, nil
	}
	if err != nil {
		return false, src.explain(err)
	}
	return true, s.replace(ctx, key, current.Recipient(), plain, src)
}

// unlessCurrent is the identities of a ring, and tells whether it was the current one that fit.
type unlessCurrent struct {
	current   *age.X25519Identity
	others    anyIdentity
	isCurrent bool
}

// Unwrap implements age.Identity.
func (u *unlessCurrent) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	if _, err := u.current.Unwrap(stanzas); err == nil {
		u.isCurrent = true
		return nil, age.ErrIncorrectIdentity // nothing to read
	}
	return u.others.Unwrap(stanzas)
}

// replace stores the plaintext under a key that has an object.
func (s *Store) replace(ctx context.Context, key string, to age.Recipient, plain io.Reader, src *source) error {
	writing, cancel := context.WithCancel(ctx)
	defer cancel()
	opts := s.bucket.writer()
	opts.ContentType = contentType
	object, err := s.bucket.NewWriter(writing, key, opts)
	if err != nil {
		return storageError("replace", err)
	}
	abort := func(err error) error {
		cancel() // before Close: a closed writer whose context is alive would commit
		_ = object.Close()
		return err
	}
	enc, err := age.Encrypt(object, to)
	if err != nil {
		return abort(storageError("replace", err))
	}
	if _, err := io.Copy(enc, reading{plain, src}); err != nil {
		if explained := (unreadable{}); errors.As(err, &explained) {
			return abort(explained.error)
		}
		return abort(storageError("replace", err))
	}
	if err := enc.Close(); err != nil {
		return abort(storageError("replace", err))
	}
	if err := object.Close(); err != nil {
		return storageError("replace", err)
	}
	if s.bucket.settle != nil {
		return storageError("replace", s.bucket.settle(key))
	}
	return nil
}

// reading marks the errors of reading, apart from those of writing.
type reading struct {
	plain io.Reader
	src   *source
}

type unreadable struct{ error }

func (r reading) Read(p []byte) (int, error) {
	n, err := r.plain.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = unreadable{r.src.explain(err)}
	}
	return n, err
}
