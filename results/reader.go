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
	"slices"

	"filippo.io/age"
	"gocloud.dev/blob"

	"github.com/fetcherhq/fetcher/secret"
)

const blockBytes = 64 << 10

// Reader streams the plaintext of one object and verifies it on the way. It is used by one goroutine at a time.
type Reader struct {
	src   *source
	plain io.Reader
	facts Facts
	sha   hash.Hash
	mac   hash.Hash
	size  int64

	unsigned bool // the key of its signature is not known any more

	out   []byte // may be handed out
	held  []byte // read and hashed, not yet known to be right
	spare []byte // the buffer that out lay in
	err   error  // what follows out
}

// OpenReader opens the object that f describes. It has read and checked the beginning, all of a small object, when it
// returns. ErrGone, ErrTampered and ErrUnavailable tell what is wrong, here and from Read. Reading stops when ctx does.
func (s *Store) OpenReader(ctx context.Context, tenant string, f Facts) (*Reader, error) {
	identity, external, err := readKeys(s.keys, tenant, f)
	if err != nil {
		return nil, fmt.Errorf("open object: %w", err)
	}
	object, err := s.bucket.NewReader(ctx, f.Key, nil)
	if err != nil {
		return nil, storageError("open", err)
	}
	r := &Reader{src: &source{r: object}, facts: f, sha: sha256.New(), mac: hmac.New(sha256.New, external), unsigned: external == nil}
	if r.plain, err = age.Decrypt(r.src, identity); err != nil {
		return nil, errors.Join(r.src.explain(err), object.Close())
	}
	r.held, r.spare = make([]byte, 0, blockBytes), make([]byte, 0, blockBytes)
	r.advance() // fills held
	if r.err == nil {
		r.advance() // hands out the first block, unless that is the last and wrong
	}
	if r.err != nil && !errors.Is(r.err, io.EOF) {
		return nil, errors.Join(r.err, object.Close())
	}
	return r, nil
}

// readKeys derives what opens and what verifies an object. The signature stays that of the key the object was made with,
// also when it was encrypted anew since and that key is gone: external is nil then, and the digest has to do.
func readKeys(keys *secret.Keyring, tenant string, f Facts) (age.Identity, []byte, error) {
	external, err := keys.ExternalHMACKey(f.KeyVersion, tenant)
	if errors.Is(err, secret.ErrUnknownKey) {
		return anyIdentity{keys, tenant, err}, nil, nil
	}
	return anyIdentity{keys, tenant, nil}, external, err
}

// Read hands out verified plaintext. It returns io.EOF only after the whole object has proved to be what was stored.
func (r *Reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(r.out) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		r.advance()
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	return n, nil
}

// Size is the number of bytes the reader delivers in all.
func (r *Reader) Size() int64 { return r.facts.SizeBytes }

// Close releases the object.
func (r *Reader) Close() error { return r.src.r.Close() }

// advance is called when out is used up. It reads one block ahead: the block held so far may go out if another one
// follows it or if the whole is right.
func (r *Reader) advance() {
	block := r.spare[:blockBytes]
	n, err := io.ReadFull(r.plain, block)
	r.sha.Write(block[:n])
	r.mac.Write(block[:n])
	r.size += int64(n)
	switch {
	case err == nil && r.size > r.facts.SizeBytes:
		r.err = fmt.Errorf("read object: %w: it is too long", ErrTampered)
	case err == nil:
		r.out, r.spare, r.held = r.held, r.held[:0], block
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) && r.src.atEnd():
		if r.err = r.verify(); r.err == nil {
			r.finish(block[:n])
		}
	default:
		r.err = r.src.explain(err)
	}
}

// finish hands out everything that is left. Both pieces are right, so that they may be joined.
func (r *Reader) finish(tail []byte) {
	r.err = io.EOF
	r.out = slices.Concat(r.held, tail)
	r.held = nil
}

func (r *Reader) verify() error {
	switch {
	case r.size != r.facts.SizeBytes:
		return fmt.Errorf("read object: %w: its size differs", ErrTampered)
	case !equalHex(r.facts.SHA256, r.sha.Sum(nil)):
		return fmt.Errorf("read object: %w: its digest differs", ErrTampered)
	case !r.unsigned && !equalHex(r.facts.HMAC, r.mac.Sum(nil)):
		return fmt.Errorf("read object: %w: its signature differs", ErrTampered)
	}
	return nil
}

func equalHex(text string, sum []byte) bool {
	want, err := hex.DecodeString(text)
	return err == nil && hmac.Equal(want, sum)
}

// source remembers how the bucket's stream ended, so that a storage failure isn't taken for tampering.
type source struct {
	r   *blob.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil {
		s.err = err
	}
	return n, err
}

func (s *source) atEnd() bool { return errors.Is(s.err, io.EOF) }

// explain tells whose fault an error of decryption is.
func (s *source) explain(err error) error {
	if s.err != nil && !s.atEnd() {
		return fmt.Errorf("read object: %w: %w", ErrUnavailable, s.err)
	}
	if errors.Is(err, secret.ErrUnknownKey) {
		return fmt.Errorf("read object: %w", err)
	}
	return fmt.Errorf("read object: %w: %w", ErrTampered, err)
}
