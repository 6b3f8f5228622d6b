// Package results owns object storage and the envelope of what is stored there: extraction results and document
// content.
//
// It touches the bucket and derives keys from the key ring; it knows neither jobs nor databases. An object is an age v1
// file encrypted to the tenant's own X25519 identity, with digests of its plaintext kept beside it (Facts) by the
// caller. It promises:
//
//   - An object becomes visible whole, by Commit, or not at all. Abort, a cancelled context and a failed write leave
//     none, and no parts of one.
//   - Commit never replaces an object: of two writers under one key the first wins and the other gets ErrExists. A
//     writer that lost the right to its key therefore can't overwrite what its successor stored, however late it wakes.
//   - What a dead writer left under a key is removed by Reclaim, which looks first, then asks whether the caller still
//     owns the key, and then removes only what it saw. No successor existed at the time of the look if the caller still
//     owned the key after it, so a committed object of a successor is never removed, however late the removal happens.
//   - A Reader hands out the last block only if size and digests agree with the facts; a reader that ended with io.EOF
//     delivered exactly the bytes that were committed.
//
// So an object's key needs no attempt number in it: the rightful attempt reclaims, writes, and refers to the object in
// a row that is guarded by the attempt. Document content goes without attempts: its key is made of its digest, so that
// whoever wrote it wrote the same.
package results

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/fetcherhq/fetcher/secret"
)

// What can be wrong with an object or its store. Every error of this package that is none of these is a fault of the
// caller or of the key ring.
var (
	ErrGone        = errors.New("the object does not exist")
	ErrTampered    = errors.New("the object is not what was stored")
	ErrExists      = errors.New("an object is already stored under the key")
	ErrUnavailable = errors.New("the object storage failed")
)

// Store is a bucket of encrypted objects. It is safe for concurrent use.
type Store struct {
	bucket *bucket
	keys   *secret.Keyring
	prefix string
}

// Options of Open. The zero value is usable.
type Options struct {
	KeyPrefix string // in front of every object key; a slash is put between if it doesn't end with one
}

// Facts describe one stored object: what a reader needs to open and to verify it. SHA256 and HMAC are lower-case hex
// over the plaintext, HMAC with the tenant's external key of KeyVersion; SizeBytes is the plaintext's.
type Facts struct {
	Key        string
	SizeBytes  int64
	SHA256     string
	HMAC       string
	KeyVersion int
	CRC32      uint32 // IEEE, of the plaintext; known to the writer, not needed for reading
}

// Open opens the bucket at url: file:///directory, which is created with mode 0700 if need be, or
// s3://bucket?region=…&endpoint=…, gs://bucket or azblob://container. The caller closes the Store.
func Open(ctx context.Context, url string, keys *secret.Keyring, o Options) (*Store, error) {
	b, err := openBucket(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("open results storage: %w", err)
	}
	prefix := o.KeyPrefix
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	return &Store{bucket: b, keys: keys, prefix: prefix}, nil
}

// Key joins the segments of an object's key behind the store's prefix, leaving out empty ones.
func (s *Store) Key(segments ...string) string {
	var kept []string
	for _, seg := range segments {
		if seg != "" {
			kept = append(kept, seg)
		}
	}
	return s.prefix + strings.Join(kept, "/")
}

// Delete removes the object under key. ErrGone when there is none.
func (s *Store) Delete(ctx context.Context, key string) error {
	return storageError("delete", s.bucket.Delete(ctx, key))
}

// Ping tells whether the bucket can be used.
func (s *Store) Ping(ctx context.Context) error { return storageError("ping", s.bucket.ping(ctx)) }

// Close releases the bucket. Readers and writers must be finished.
func (s *Store) Close() error { return s.bucket.Close() }

// storageError classifies an error of the bucket; nil stays nil.
func storageError(op string, err error) error {
	if err == nil {
		return nil
	}
	kind := ErrUnavailable
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		kind = ErrGone
	case gcerrors.FailedPrecondition:
		kind = ErrExists
	}
	return fmt.Errorf("%s object: %w: %w", op, kind, err)
}

// bucket is a blob bucket with what its kind of storage needs besides.
type bucket struct {
	*blob.Bucket

	writer  func() *blob.WriterOptions                           // options of a new object
	settle  func(key string) error                               // makes a finished object durable; may be nil
	strays  func(ctx context.Context, key string) (stray, error) // unfinished uploads under a key; nil when there are none
	prune   func(key string)                                     // removes empty directories, of storage that has any; may be nil
	pinging func(ctx context.Context) error
}

// stray removes unfinished uploads that were found earlier.
type stray func(ctx context.Context) error

func (b *bucket) ping(ctx context.Context) error { return b.pinging(ctx) }
