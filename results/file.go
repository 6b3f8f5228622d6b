package results

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"golang.org/x/sys/unix"
)

const (
	dirMode = 0o700

	// tempSuffix ends the names of files that are being written. No key ends so.
	tempSuffix = ".tmp"
)

// openBucket opens the bucket of a URL.
func openBucket(ctx context.Context, raw string) (*bucket, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("not a URL") // the cause quotes the text, which may hold credentials
	}
	switch u.Scheme {
	case fileblob.Scheme:
		return openDirectory(ctx, u)
	case s3Scheme:
		return openS3(ctx, u)
	}
	b, err := openCloud(ctx, u)
	if err == nil && b == nil {
		err = fmt.Errorf("unknown scheme %q", u.Scheme)
	}
	return b, err
}

// openDirectory keeps objects as files. A file is written under a temporary name beside its final one, because a
// rename can't cross file systems, and has no side-car of attributes.
func openDirectory(ctx context.Context, u *url.URL) (*bucket, error) {
	opener := fileblob.URLOpener{Options: fileblob.Options{
		CreateDir: true, DirFileMode: dirMode, NoTempDir: true, Metadata: fileblob.MetadataDontWrite,
	}}
	b, err := opener.OpenBucketURL(ctx, u)
	if err != nil {
		return nil, err
	}
	dir := u.Path
	if u.Host == "." {
		dir = strings.TrimPrefix(dir, "/")
	}
	d := directory(dir)
	return &bucket{Bucket: b, writer: d.writer, settle: d.sync, strays: d.strays, prune: d.prune, pinging: d.ping}, nil
}

type directory string

// path is where an object's file is. Keys are made of names that need no escaping.
func (d directory) path(key string) string { return filepath.Join(string(d), filepath.FromSlash(key)) }

func (d directory) writer() *blob.WriterOptions { return &blob.WriterOptions{} }

// sync makes a renamed file survive a power failure, as the row that refers to it does.
func (d directory) sync(key string) error {
	for _, path := range []string{d.path(key), filepath.Dir(d.path(key))} {
		f, err := os.Open(path) //nolint:gosec // the path of an object just written
		if err != nil {
			return err
		}
		err = f.Sync()
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// strays finds the temporary files that killed writers of key, or of any below it if it ends with a slash, left behind.
// An empty directory is left behind, too. Nil: there is nothing.
func (d directory) strays(_ context.Context, key string) (stray, error) {
	dir, base := filepath.Split(d.path(key))
	dir = filepath.Clean(dir)
	whole := strings.HasSuffix(key, "/")
	if whole {
		dir = d.path(key)
	}
	var found []string
	dirs := false
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // just finished, or removed
		case err != nil:
			return err
		case e.IsDir():
			if path != dir && !whole {
				return fs.SkipDir
			}
			dirs = whole
		case strings.HasSuffix(path, tempSuffix) && (whole || strings.HasPrefix(e.Name(), base+".")):
			found = append(found, path)
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if len(found) == 0 && !dirs {
		return nil, nil //nolint:nilnil // nothing to remove
	}
	return func(context.Context) error {
		for _, path := range found {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	}, nil
}

// prune removes the directory of a key that ends with a slash, and those below, as far as they are empty.
func (d directory) prune(key string) {
	var found []string
	_ = filepath.WalkDir(d.path(key), func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			found = append(found, path)
		}
		return nil // what is gone already, or can't be read, stays so
	})
	for _, path := range slices.Backward(found) {
		_ = unix.Rmdir(path) // one that is not empty stays
	}
}

func (d directory) ping(context.Context) error {
	return unix.Access(string(d), unix.R_OK|unix.W_OK|unix.X_OK)
}
