package results

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"gocloud.dev/blob"
)

// Object is what a listing tells of one object.
type Object struct {
	Key     string
	ModTime time.Time
}

// List calls fn with every object whose key begins with prefix, which Key has made, in the order of keys, until fn fails.
// Objects that come or go meanwhile may be missed.
func (s *Store) List(ctx context.Context, prefix string, fn func(Object) error) error {
	all := s.bucket.List(&blob.ListOptions{Prefix: prefix})
	for {
		object, err := all.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return storageError("list", err)
		}
		if err := fn(Object{Key: object.Key, ModTime: object.ModTime}); err != nil {
			return err
		}
	}
}

// DeletePrefix deletes every object whose key begins with prefix, which ends with a slash, and returns how many.
func (s *Store) DeletePrefix(ctx context.Context, prefix string) (n int, err error) {
	if prefix == "" || prefix[len(prefix)-1] != '/' {
		return 0, fmt.Errorf("delete objects: %q does not end a directory", prefix)
	}
	err = s.List(ctx, prefix, func(o Object) error {
		if failed := s.Delete(ctx, o.Key); failed != nil && !errors.Is(failed, ErrGone) {
			return failed
		}
		n++
		return nil
	})
	return n, err
}
