package results

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"filippo.io/age"
	"gocloud.dev/blob"

	"github.com/fetcherhq/fetcher/secret"
)

// ReaderAt reads any part of one object's plaintext. Every 64 KiB chunk and the size are authenticated, and the object
// was encrypted for the tenant; that it is the very object the facts describe only a Reader proves.
type ReaderAt struct {
	plain io.ReaderAt
	src   *rangeSource
	size  int64
}

// OpenReaderAt opens the object that f describes for random access. Reading stops when ctx does.
func (s *Store) OpenReaderAt(ctx context.Context, tenant string, f Facts) (*ReaderAt, error) {
	identity, _, err := readKeys(s.keys, tenant, f)
	if err != nil {
		return nil, fmt.Errorf("open object: %w", err)
	}
	attrs, err := s.bucket.Attributes(ctx, f.Key)
	if err != nil {
		return nil, storageError("open", err)
	}
	src := &rangeSource{open: func(off int64) (*blob.Reader, error) {
		return s.bucket.NewRangeReader(ctx, f.Key, off, -1, nil)
	}}
	plain, size, err := age.DecryptReaderAt(src, attrs.Size, identity)
	if err != nil {
		return nil, src.failed(err)
	}
	if size != f.SizeBytes {
		return nil, src.failed(errors.New("its size differs"))
	}
	return &ReaderAt{plain: plain, src: src, size: size}, nil
}

// ReadAt implements io.ReaderAt. Parts that follow each other are read from one stream of the bucket.
func (r *ReaderAt) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.plain.ReadAt(p, off)
	if err != nil && err != io.EOF { //nolint:errorlint // io.ReaderAt's contract is the bare io.EOF
		err = r.src.explain(err)
	}
	return n, err
}

// Size is the number of plaintext bytes.
func (r *ReaderAt) Size() int64 { return r.size }

// Close releases the object.
func (r *ReaderAt) Close() error { return r.src.close() }

// rangeSource reads a blob at random, keeping one stream open for reads in sequence.
type rangeSource struct {
	open func(off int64) (*blob.Reader, error)

	mu  sync.Mutex
	r   *blob.Reader
	pos int64
	err error // a failure of the storage
}

// ReadAt implements io.ReaderAt.
func (s *rangeSource) ReadAt(p []byte, off int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.r == nil || s.pos != off {
		if s.r != nil {
			_ = s.r.Close()
			s.r = nil
		}
		r, err := s.open(off)
		if err != nil {
			s.err = err
			return 0, err
		}
		s.r, s.pos = r, off
	}
	n, err := io.ReadFull(s.r, p)
	s.pos += int64(n)
	if err == io.ErrUnexpectedEOF || err == io.EOF {
		return n, io.EOF
	}
	if err != nil {
		s.err = err
	}
	return n, err
}

func (s *rangeSource) failed(err error) error {
	err = s.explain(err)
	_ = s.close()
	return err
}

func (s *rangeSource) explain(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return storageError("read", s.err)
	}
	if errors.Is(err, secret.ErrUnknownKey) {
		return fmt.Errorf("read object: %w", err)
	}
	return fmt.Errorf("read object: %w: %w", ErrTampered, err)
}

func (s *rangeSource) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.r == nil {
		return nil
	}
	err := s.r.Close()
	s.r = nil
	return err
}
