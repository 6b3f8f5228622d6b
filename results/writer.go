package results

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"filippo.io/age"
	"gocloud.dev/blob"
)

const contentType = "application/octet-stream" // what is stored is ciphertext

// Writer takes the plaintext of one object and streams it to the bucket. It is used by one goroutine at a time and
// ended by Commit or Abort; Abort after Commit does nothing, so it can be deferred.
type Writer struct {
	bucket *bucket
	object *blob.Writer
	cancel context.CancelFunc
	enc    io.WriteCloser
	sha    hash.Hash
	mac    hash.Hash
	facts  Facts
	err    error // sticky
	done   bool
}

// Create begins an object of the tenant under key, which Store.Key has made. Nothing is visible before Commit. The
// writer stops when ctx does.
func (s *Store) Create(ctx context.Context, tenant, key string) (*Writer, error) {
	version := s.keys.CurrentVersion()
	identity, err := s.keys.ResultIdentity(version, tenant)
	if err != nil {
		return nil, fmt.Errorf("create object: %w", err)
	}
	external, err := s.keys.ExternalHMACKey(version, tenant)
	if err != nil {
		return nil, fmt.Errorf("create object: %w", err)
	}
	opts := s.bucket.writer()
	opts.ContentType, opts.IfNotExist = contentType, true
	ctx, cancel := context.WithCancel(ctx)
	object, err := s.bucket.NewWriter(ctx, key, opts)
	if err != nil {
		cancel()
		return nil, storageError("create", err)
	}
	w := &Writer{
		bucket: s.bucket, object: object, cancel: cancel, sha: sha256.New(), mac: hmac.New(sha256.New, external),
		facts: Facts{Key: key, KeyVersion: version},
	}
	if w.enc, err = age.Encrypt(object, identity.Recipient()); err != nil {
		w.Abort()
		return nil, storageError("create", err)
	}
	return w, nil
}

// Write takes a piece of the plaintext. An error is final: the object can only be aborted then.
func (w *Writer) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	w.sha.Write(p)
	w.mac.Write(p)
	w.facts.SizeBytes += int64(len(p))
	if _, err := w.enc.Write(p); err != nil {
		w.err = storageError("write", err)
		return 0, w.err
	}
	return len(p), nil
}

// Size is the number of plaintext bytes taken so far.
func (w *Writer) Size() int64 { return w.facts.SizeBytes }

// Commit makes the object visible and returns its facts. After a failure the object counts as absent, and what may be
// left of it is for Reclaim; ErrExists tells that another writer was first.
func (w *Writer) Commit(ctx context.Context) (Facts, error) {
	if w.done {
		return Facts{}, errors.New("commit object: the writer has ended")
	}
	if w.err == nil {
		w.err = storageError("write", w.enc.Close())
	}
	if w.err == nil {
		w.err = storageError("commit", ctx.Err())
	}
	if w.err != nil {
		w.Abort()
		return Facts{}, w.err
	}
	stop := context.AfterFunc(ctx, w.cancel)
	defer stop()
	defer w.cancel()
	w.done = true
	if err := w.object.Close(); err != nil {
		return Facts{}, storageError("commit", err)
	}
	if w.bucket.settle != nil {
		if err := w.bucket.settle(w.facts.Key); err != nil {
			return Facts{}, storageError("commit", err)
		}
	}
	w.facts.SHA256 = hex.EncodeToString(w.sha.Sum(nil))
	w.facts.HMAC = hex.EncodeToString(w.mac.Sum(nil))
	return w.facts, nil
}

// Abort drops the object. Nothing of it stays.
func (w *Writer) Abort() {
	if w.done {
		return
	}
	w.done = true
	w.cancel()           // before Close: a closed writer whose context is alive would commit
	_ = w.object.Close() // tells that the context is cancelled
}

// Reclaim removes what writers that are gone left under key: an object that nobody refers to, unfinished uploads.
// owned is asked between the look and the removal; it must return nil only if the caller alone may write under key at
// that moment and if no row refers to the object. It is not asked when there is nothing to remove.
func (s *Store) Reclaim(ctx context.Context, key string, owned func(context.Context) error) error {
	seen, err := s.bucket.Attributes(ctx, key)
	if err != nil && !isGone(err) {
		return storageError("reclaim", err)
	}
	sweep, err := s.bucket.strays(ctx, key)
	if err != nil {
		return storageError("reclaim", err)
	}
	if seen == nil && sweep == nil {
		return nil
	}
	if err := owned(ctx); err != nil {
		return fmt.Errorf("reclaim object: %w", err)
	}
	if sweep != nil {
		if err := sweep(ctx); err != nil {
			return storageError("reclaim", err)
		}
	}
	if seen == nil {
		return nil
	}
	return s.deleteSeen(ctx, key, seen.ETag)
}

// deleteSeen removes the object under key if it still is the one with the ETag.
func (s *Store) deleteSeen(ctx context.Context, key, etag string) error {
	now, err := s.bucket.Attributes(ctx, key)
	switch {
	case isGone(err):
		return nil
	case err != nil:
		return storageError("reclaim", err)
	case now.ETag != etag:
		return fmt.Errorf("reclaim object: %w", ErrExists)
	}
	if err := s.bucket.DeleteWithOptions(ctx, key, onlyIf(etag)); err != nil && !isGone(err) {
		return storageError("reclaim", err)
	}
	return nil
}
