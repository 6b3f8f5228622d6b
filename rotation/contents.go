package rotation

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/fetcherhq/fetcher/results"
	"github.com/fetcherhq/fetcher/store"
)

// errNoContent says that a tenant has documents and nobody said where.
var errNoContent = errors.New("CONTENT_URL is not set: the contents of web documents stay under their former key")

// contents stores the contents of web documents anew. Their keys name the version they are encrypted under, so that both
// are there until the row refers to the new one; whoever is at the old one goes on with it or is told to try again.
func (r *Rotator) contents(ctx context.Context, id string) (n int, err error) {
	after := []byte{}
	for {
		var page []store.Blob
		failed := r.with(ctx, id, func(rows store.Sealed, _ store.Retention) (failed error) {
			page, failed = rows.Blobs(ctx, r.Keys.CurrentVersion(), after, batch)
			return failed
		})
		if failed != nil || len(page) == 0 {
			return n, errors.Join(err, failed)
		}
		if r.Content == nil {
			return n, errors.Join(err, errNoContent)
		}
		for _, blob := range page {
			after = blob.SHA256
			if failed := r.content(ctx, id, blob); failed != nil {
				err = errors.Join(err, fmt.Errorf("content %x: %w", blob.SHA256, failed))
			} else {
				n++
			}
			if ctx.Err() != nil {
				return n, errors.Join(err, ctx.Err())
			}
		}
	}
}

func (r *Rotator) content(ctx context.Context, id string, old store.Blob) error {
	plain, err := r.readContent(ctx, id, old)
	if err != nil {
		return err
	}
	segment := id
	if r.SingleTenant {
		segment = ""
	}
	facts, err := r.Content.Put(ctx, id, plain, segment, "content")
	if err != nil {
		return err
	}
	if facts.SHA256 != hex.EncodeToString(old.SHA256) {
		return results.ErrTampered
	}
	replaced := false
	err = r.with(ctx, id, func(rows store.Sealed, _ store.Retention) (failed error) {
		replaced, failed = rows.ReplaceBlob(ctx, old, store.Blob{ObjectKey: facts.Key, HMAC: facts.HMAC, KeyVersion: facts.KeyVersion})
		return failed
	})
	if err != nil || !replaced {
		return err // not replaced: another rotation did it
	}
	if err := r.Content.Delete(ctx, old.ObjectKey); err != nil && !errors.Is(err, results.ErrGone) {
		return err
	}
	return nil
}

func (r *Rotator) readContent(ctx context.Context, id string, b store.Blob) ([]byte, error) {
	reader, err := r.Content.OpenReader(ctx, id, results.Facts{
		Key: b.ObjectKey, SizeBytes: b.SizeBytes, SHA256: hex.EncodeToString(b.SHA256), HMAC: b.HMAC, KeyVersion: b.KeyVersion,
	})
	if err != nil {
		return nil, err
	}
	var plain bytes.Buffer
	_, err = io.Copy(&plain, reader)
	return plain.Bytes(), errors.Join(err, reader.Close())
}
