package results

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"gocloud.dev/blob"
)

// Reclaim removes what writers that are gone left under key: an object that nobody refers to, unfinished uploads.
// owned is asked between the look and the removal; it must return nil only if the caller alone may write under key at
// that moment and if no row refers to the object. It is not asked when there is nothing to remove.
func (s *Store) Reclaim(ctx context.Context, key string, owned func(context.Context) error) error {
	seen, err := s.bucket.Attributes(ctx, key)
	if err != nil && !isGone(err) {
		return storageError("reclaim", err)
	}
	found := map[string]string{}
	if err == nil {
		found[key] = seen.ETag
	}
	return s.reclaim(ctx, key, found, owned)
}

// ReclaimAll does the same for every key that begins with the directory, which ends with a slash.
func (s *Store) ReclaimAll(ctx context.Context, directory string, owned func(context.Context) error) error {
	if !strings.HasSuffix(directory, "/") || directory == "/" {
		return errors.New("reclaim objects: not a directory")
	}
	found := map[string]string{}
	list := s.bucket.List(&blob.ListOptions{Prefix: directory})
	for {
		o, err := list.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return storageError("reclaim", err)
		}
		if strings.HasSuffix(o.Key, tempSuffix) { // of a file bucket: not an object yet, see strays
			continue
		}
		seen, err := s.bucket.Attributes(ctx, o.Key) // the listing has no ETag
		if isGone(err) {
			continue
		}
		if err != nil {
			return storageError("reclaim", err)
		}
		found[o.Key] = seen.ETag
	}
	return s.reclaim(ctx, directory, found, owned)
}

// reclaim removes the unfinished uploads under a key or directory and the objects that were found with these ETags.
func (s *Store) reclaim(ctx context.Context, key string, found map[string]string, owned func(context.Context) error) error {
	sweep, err := s.bucket.strays(ctx, key)
	if err != nil {
		return storageError("reclaim", err)
	}
	if len(found) == 0 && sweep == nil {
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
	for object, etag := range found {
		if err := s.deleteSeen(ctx, object, etag); err != nil {
			return err
		}
	}
	if s.bucket.prune != nil && strings.HasSuffix(key, "/") {
		s.bucket.prune(key)
	}
	return nil
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
