package results

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"gocloud.dev/blob"
)

// Object is what a listing tells of one object.
type Object struct {
	Key     string
	ModTime time.Time

	Unfinished bool // no object, but what a writer is making or, killed, left behind; a file bucket lists such
}

// List calls fn with every object, and unfinished one, whose key begins with prefix, which Key has made, in the order of
// keys, until fn fails.
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
		unfinished := strings.HasSuffix(object.Key, tempSuffix)
		if err := fn(Object{Key: object.Key, ModTime: object.ModTime, Unfinished: unfinished}); err != nil {
			return err
		}
	}
}

// DeletePrefix deletes every object, and unfinished one, whose key begins with prefix, which ends with a slash, and
// returns how many.
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
	if err == nil && s.bucket.prune != nil {
		s.bucket.prune(prefix)
	}
	return n, err
}
