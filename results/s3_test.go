package results_test

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/uuid"
	"gocloud.dev/blob/s3blob"

	"github.com/fetcherhq/fetcher/results"
	"github.com/fetcherhq/fetcher/testkit"
)

// openS3 opens a bucket under a prefix of the test's own and returns a count of the uploads open there.
func openS3(t *testing.T) (*results.Store, func() int) {
	t.Helper()
	raw := testkit.S3(t)
	s, err := results.Open(t.Context(), raw, keyring(t), results.Options{KeyPrefix: uuid.NewString()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, func() int { return uploads(t, raw, s.Key("")) }
}

// uploads counts the multipart uploads that are open under a prefix.
func uploads(t *testing.T, raw, prefix string) int {
	t.Helper()
	u := must(url.Parse(raw))
	q := u.Query()
	q.Set("use_path_style", "true")
	u.RawQuery = q.Encode()
	b := must(new(s3blob.URLOpener).OpenBucketURL(t.Context(), u))
	defer b.Close()
	var client *s3.Client
	if !b.As(&client) {
		t.Fatal("not an S3 bucket")
	}
	list := must(client.ListMultipartUploads(context.WithoutCancel(t.Context()), &s3.ListMultipartUploadsInput{Bucket: &u.Host, Prefix: &prefix}))
	return len(list.Uploads)
}

func TestS3(t *testing.T) {
	t.Parallel()
	s, open := openS3(t)
	ctx := t.Context()
	if err := s.Ping(ctx); err != nil {
		t.Error(err)
	}
	for _, n := range []int{0, 10, 5<<20 + 1, 17 << 20} {
		plain := random(n)
		key := s.Key(tenant, uuid.NewString())
		f := put(t, s, key, plain)
		if got, err := read(ctx, s, tenant, f); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%d bytes: %d back, %v", n, len(got), err)
		}
		w := must(s.Create(ctx, tenant, key))
		must(w.Write(random(n)))
		if _, err := w.Commit(ctx); !errors.Is(err, results.ErrExists) {
			t.Errorf("%d bytes: second commit: %v", n, err)
		}
		if err := s.Reclaim(ctx, key, func(context.Context) error { return nil }); err != nil {
			t.Errorf("%d bytes: reclaim: %v", n, err)
		}
		if err := s.Delete(ctx, key); !errors.Is(err, results.ErrGone) {
			t.Errorf("%d bytes: delete after reclaim: %v", n, err)
		}
	}
	if n := open(); n > 0 {
		t.Errorf("%d uploads open", n)
	}
}

func TestS3AbortLeavesNothing(t *testing.T) {
	t.Parallel()
	s, open := openS3(t)
	ctx := t.Context()
	key := s.Key("a")
	w := must(s.Create(ctx, tenant, key))
	must(w.Write(random(17 << 20)))
	w.Abort()
	if n := open(); n > 0 {
		t.Errorf("%d uploads open after an abort", n)
	}
	if err := s.Delete(ctx, key); !errors.Is(err, results.ErrGone) {
		t.Errorf("delete: %v", err)
	}
	killed := must(s.Create(ctx, tenant, key))
	must(killed.Write(random(17 << 20))) // a writer that is killed leaves its upload open
	if n := open(); n != 1 {
		t.Errorf("%d uploads open while writing", n)
	}
	// This one lives on, and a part that it has under way may bring the upload back: then it is reclaimed again.
	for deadline := time.Now().Add(time.Minute); ; {
		if err := s.Reclaim(ctx, key, func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
		n := open()
		if n == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d uploads open after reclaim", n)
		}
	}
	if _, err := killed.Commit(ctx); err == nil {
		t.Error("a reclaimed upload was committed")
	}
}
