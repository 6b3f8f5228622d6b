package results

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"
	"gocloud.dev/blob/s3blob"
	"gocloud.dev/gcerrors"
)

const (
	s3Scheme = s3blob.Scheme

	partBytes    = 5 << 20 // the least S3 takes; 10,000 parts of it are 48 GiB
	partsAtOnce  = 2
	abortTimeout = 10 * time.Second
	abortTries   = 5
	abortPause   = 100 * time.Millisecond
)

// openS3 keeps objects in S3 or a server that speaks its protocol. A server of one's own is addressed by path and
// spared the newer checksum trailers unless the URL says otherwise.
func openS3(ctx context.Context, u *url.URL) (*bucket, error) {
	q := u.Query()
	if q.Get("endpoint") != "" {
		setDefault(q, "use_path_style", "true", "s3ForcePathStyle")
		setDefault(q, "request_checksum_calculation", "when_required")
		setDefault(q, "response_checksum_validation", "when_required")
	}
	full := *u
	full.RawQuery = q.Encode()
	b, err := new(s3blob.URLOpener).OpenBucketURL(ctx, &full)
	if err != nil {
		return nil, err
	}
	var client *s3.Client
	if !b.As(&client) {
		return nil, errors.Join(errors.New("not an S3 bucket"), b.Close())
	}
	o := objects{bucket: b, name: u.Host, client: client}
	return &bucket{Bucket: b, writer: o.writer, strays: o.strays, pinging: o.ping}, nil
}

func setDefault(q url.Values, name, value string, aliases ...string) {
	if !slices.ContainsFunc(append(aliases, name), q.Has) {
		q.Set(name, value)
	}
}

type objects struct {
	bucket *blob.Bucket
	name   string
	client *s3.Client
}

// writer replaces the transfer manager that the bucket would use by one whose buffers are small and that aborts a
// multipart upload in a context of its own: the writer's is cancelled when there is something to abort.
func (o objects) writer() *blob.WriterOptions {
	return &blob.WriterOptions{BeforeWrite: func(as func(any) bool) error {
		var tm *transfermanager.Client
		if !as(&tm) {
			return nil
		}
		*tm = *transfermanager.New(insistent{o.client, o}, func(opts *transfermanager.Options) {
			opts.PartSizeBytes = partBytes
			opts.MultipartUploadThreshold = partBytes
			opts.Concurrency = partsAtOnce
			opts.FailTimeout = abortTimeout
			opts.RequestChecksumCalculation = o.client.Options().RequestChecksumCalculation
		})
		return nil
	}}
}

// strays finds the multipart uploads of key, or below it if it ends with a slash, that killed writers left open. Nil:
// there are none.
func (o objects) strays(ctx context.Context, key string) (stray, error) {
	type upload struct{ key, id string }
	var found []upload
	pages := s3.NewListMultipartUploadsPaginator(o.client, &s3.ListMultipartUploadsInput{Bucket: &o.name, Prefix: &key})
	for pages.HasMorePages() {
		list, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, u := range list.Uploads {
			if k := aws.ToString(u.Key); k == key || strings.HasSuffix(key, "/") {
				found = append(found, upload{k, aws.ToString(u.UploadId)})
			}
		}
	}
	if len(found) == 0 {
		return nil, nil //nolint:nilnil // nothing to remove
	}
	return func(ctx context.Context) error {
		for _, u := range found {
			if err := o.abort(ctx, u.key, u.id); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// insistent is a client that aborts uploads for good.
type insistent struct {
	*s3.Client

	objects objects
}

// AbortMultipartUpload is called by the transfer manager when an upload has failed or was cancelled.
func (c insistent) AbortMultipartUpload(
	ctx context.Context, in *s3.AbortMultipartUploadInput, _ ...func(*s3.Options),
) (*s3.AbortMultipartUploadOutput, error) {
	return &s3.AbortMultipartUploadOutput{}, c.objects.abort(ctx, aws.ToString(in.Key), aws.ToString(in.UploadId))
}

// abort ends a multipart upload. A part that was under way can outlive one call, as S3 documents, so it is called until
// the upload is unknown, a few times at most: what is left then is for the next reclaim.
func (o objects) abort(ctx context.Context, key, id string) error {
	for range abortTries {
		in := &s3.AbortMultipartUploadInput{Bucket: &o.name, Key: &key, UploadId: &id}
		if _, err := o.client.AbortMultipartUpload(ctx, in); o.noSuchUpload(err) {
			return nil
		} else if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(abortPause):
		}
	}
	return nil
}

func (o objects) noSuchUpload(err error) bool {
	var api interface{ ErrorCode() string }
	return errors.As(err, &api) && api.ErrorCode() == "NoSuchUpload"
}

func (o objects) ping(ctx context.Context) error {
	_, err := o.client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &o.name})
	return err
}

// onlyIf makes a deletion hold for the object with this ETag alone, where the storage can do that.
func onlyIf(etag string) *blob.DeleteOptions {
	return &blob.DeleteOptions{BeforeDelete: func(as func(any) bool) error {
		var in *s3.DeleteObjectInput
		if as(&in) {
			in.IfMatch = &etag
		}
		return nil
	}}
}

// isGone tells whether a bucket's error means that there is no such object.
func isGone(err error) bool { return gcerrors.Code(err) == gcerrors.NotFound }
