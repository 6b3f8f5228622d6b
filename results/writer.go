package results

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
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
	w.facts.CRC32 = crc32.Update(w.facts.CRC32, crc32.IEEETable, p)
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
