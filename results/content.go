package results

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// putTries bounds how often Put replaces an object that is not what its key says.
const putTries = 3

// Put stores content of the tenant under a key that is made of the segments, the content's digest and the version of the
// key it is encrypted with, and returns its facts. Content that is there already is read and not written again; an
// object under its key that is something else is replaced. Any number of callers may put the same content at once.
func (s *Store) Put(ctx context.Context, tenant string, content []byte, segments ...string) (Facts, error) {
	facts, err := s.describe(tenant, content, segments)
	if err != nil {
		return Facts{}, fmt.Errorf("put object: %w", err)
	}
	for range putTries {
		_, err = s.write(ctx, tenant, facts.Key, content)
		if !errors.Is(err, ErrExists) {
			break
		}
		if err = s.intact(ctx, tenant, facts); !errors.Is(err, ErrGone) {
			break
		}
	}
	if err != nil {
		return Facts{}, err
	}
	return facts, nil
}

// describe returns the facts content will have.
func (s *Store) describe(tenant string, content []byte, segments []string) (Facts, error) {
	version := s.keys.CurrentVersion()
	external, err := s.keys.ExternalHMACKey(version, tenant)
	if err != nil {
		return Facts{}, err
	}
	sum, mac := sha256.Sum256(content), hmac.New(sha256.New, external)
	mac.Write(content)
	digest := hex.EncodeToString(sum[:])
	return Facts{
		Key:       s.Key(append(append([]string{}, segments...), fmt.Sprintf("%s.%d", digest, version))...),
		SizeBytes: int64(len(content)), SHA256: digest, HMAC: hex.EncodeToString(mac.Sum(nil)), KeyVersion: version,
	}, nil
}

func (s *Store) write(ctx context.Context, tenant, key string, content []byte) (Facts, error) {
	w, err := s.Create(ctx, tenant, key)
	if err != nil {
		return Facts{}, err
	}
	defer w.Abort()
	if _, err := w.Write(content); err != nil {
		return Facts{}, err
	}
	return w.Commit(ctx)
}

// intact returns nil if the object is what the facts say. One that is not is removed, and counts as gone.
func (s *Store) intact(ctx context.Context, tenant string, facts Facts) error {
	seen, err := s.bucket.Attributes(ctx, facts.Key)
	if err != nil {
		return storageError("look at", err)
	}
	err = s.verify(ctx, tenant, facts)
	if !errors.Is(err, ErrTampered) {
		return err
	}
	if err := s.deleteSeen(ctx, facts.Key, seen.ETag); err != nil && !errors.Is(err, ErrExists) {
		return err
	}
	return fmt.Errorf("put object: %w", ErrGone)
}

// verify reads the object to its end.
func (s *Store) verify(ctx context.Context, tenant string, facts Facts) error {
	r, err := s.OpenReader(ctx, tenant, facts)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r)
	return errors.Join(err, r.Close())
}
