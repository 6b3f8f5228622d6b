package testkit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// S3URL names the variable with the URL of a bucket to use instead of one on an own server. What the SDK needs besides
// is then the caller's.
const S3URL = "TEST_S3_URL"

// s3Profile is the section of the credentials file that the URLs refer to. A profile that is asked for by name wins
// over whatever AWS variables the developer has set.
const s3Profile = "fetcher-testkit"

// S3 returns the URL, in the form results.Open takes, of an empty bucket of tb's own on an S3 server that the tests of
// this process share and that starts with the first call, or else TEST_S3_URL, a bucket with anything in it.
//
// The first call sets AWS_SHARED_CREDENTIALS_FILE for this process: a URL can name a profile, but can't carry its keys.
func S3(tb testing.TB) string {
	tb.Helper()
	if given := os.Getenv(S3URL); given != "" {
		return given
	}
	server, err := sharedBuckets.start()
	if err != nil {
		tb.Fatalf("testkit: S3: %v", err)
	}
	bucket := "b-" + strings.ToLower(rand.Text())
	if _, err = server.client().CreateBucket(tb.Context(), &s3.CreateBucketInput{Bucket: &bucket}); err != nil {
		tb.Fatalf("testkit: S3: create bucket: %v", err)
	}
	return server.url(bucket)
}

// sharedS3 is started at most once per process.
type sharedS3 struct {
	once   sync.Once
	dir    *tempDir
	server *s3Server
	err    error
}

// sharedBuckets is a global for the same reason as shared.
var sharedBuckets sharedS3

func (s *sharedS3) start() (*s3Server, error) {
	s.once.Do(func() {
		var binary string
		if binary, s.err = gatewayBinary(context.Background()); s.err != nil {
			return
		}
		if s.dir, s.err = newTempDir(); s.err != nil {
			return
		}
		if s.server, s.err = startS3(s.dir.path, binary); s.err != nil {
			return
		}
		s.err = s.server.publishCredentials(s.dir.path)
	})
	return s.server, s.err
}

// stop ends what start began; a later start returns an error.
func (s *sharedS3) stop() error {
	s.once.Do(func() { s.err = errors.New("the tests of this process are over") })
	var err error
	if s.server != nil {
		err = s.server.stop()
	}
	if s.dir != nil {
		err = errors.Join(err, s.dir.remove())
	}
	return err
}

// publishCredentials makes the SDK of this process find the server's keys under s3Profile.
func (s *s3Server) publishCredentials(dir string) error {
	path := filepath.Join(dir, "credentials")
	text := fmt.Sprintf("[%s]\naws_access_key_id = %s\naws_secret_access_key = %s\n", s3Profile, s.access, s.secret)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("credentials: %w", err)
	}
	return os.Setenv("AWS_SHARED_CREDENTIALS_FILE", path)
}

func (s *s3Server) url(bucket string) string {
	q := url.Values{"region": {s3Region}, "endpoint": {"http://" + s.address}, "profile": {s3Profile}}
	return (&url.URL{Scheme: "s3", Host: bucket, RawQuery: q.Encode()}).String()
}
