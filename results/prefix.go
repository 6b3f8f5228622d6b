package results

import (
	"context"
	"errors"
	"io"

	"gocloud.dev/blob"
)

// DeletePrefix removes every object whose key begins with prefix, which must not be empty, and returns how many there were.
// One that somebody else removes meanwhile is no error. Objects that are still being written are not seen.
func (s *Store) DeletePrefix(ctx context.Context, prefix string) (int, error) {
	if prefix == "" {
		return 0, errors.New("delete objects: the prefix is empty")
	}
	n := 0
	for objects := s.bucket.List(&blob.ListOptions{Prefix: prefix}); ; {
		object, err := objects.Next(ctx)
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, storageError("list", err)
		}
		switch err := s.Delete(ctx, object.Key); {
		case errors.Is(err, ErrGone):
		case err != nil:
			return n, err
		default:
			n++
		}
	}
}
