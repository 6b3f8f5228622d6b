//go:build !noclouds

package results

import (
	"context"
	"net/url"

	"gocloud.dev/blob"
	"gocloud.dev/blob/azureblob"
	"gocloud.dev/blob/gcsblob"
)

// cloudBuffer is how much of an object a client of these storages holds before it sends it. There may be several.
const cloudBuffer = 4 << 20

// openCloud opens a bucket of Google Cloud Storage or a container of Azure Blob Storage, nil for other schemes. Whoever
// runs the process says who it is in the way of these clouds: Application Default Credentials, or AZURE_STORAGE_ACCOUNT and
// a key, SAS token or the default credential.
//
// Both take an object only if there is none under its key (IfNotExist), and drop what was uploaded of one that is never
// finished by themselves, so that there is nothing to sweep.
func openCloud(ctx context.Context, u *url.URL) (*bucket, error) {
	switch u.Scheme {
	case gcsblob.Scheme, azureblob.Scheme:
	default:
		return nil, nil //nolint:nilnil // another scheme
	}
	b, err := blob.OpenBucket(ctx, u.String())
	if err != nil {
		return nil, err
	}
	return &bucket{
		Bucket: b,
		writer: func() *blob.WriterOptions {
			return &blob.WriterOptions{BufferSize: cloudBuffer, MaxConcurrency: partsAtOnce}
		},
		strays: func(context.Context, string) (stray, error) { return nil, nil }, //nolint:nilnil // see above
		pinging: func(ctx context.Context) error {
			_, err := b.IsAccessible(ctx)
			return err
		},
	}, nil
}
