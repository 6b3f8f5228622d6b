package embedded

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// repository serves one archive under every name, as the binary repository does: a zip that holds a tar.xz. The
// one in testdata holds programs that only know their version, 18.9.
func repository(t *testing.T, requests *atomic.Int32) string {
	t.Helper()
	programs, err := os.ReadFile(filepath.Join("testdata", "binaries.txz"))
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	w, err := z.Create("postgres.txz")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(programs); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(archive.Bytes())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if strings.HasSuffix(r.URL.Path, ".sha256") {
			_, _ = w.Write([]byte(hex.EncodeToString(sum[:])))
			return
		}
		_, _ = w.Write(archive.Bytes())
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestDownload(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	cache := publicDir(t)
	f := finder{
		account: serverAccount(),
		lookup:  func(string) (string, error) { return "", os.ErrNotExist },
		report:  func(string, ...any) {},
		fetch:   downloader{cache: cache, url: repository(t, &requests), account: serverAccount()}.fetch,
	}
	want := binaries{dir: filepath.Join(cache, "pgsql", "bin"), major: 18}
	for range 2 {
		got, err := f.find(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(binaries{})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if got := requests.Load(); got != 2 {
		t.Errorf("%d requests, want the archive and its checksum, once", got)
	}
	if left := globbed(cache, "scratch-*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestDownloadFromNowhere(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	cache := publicDir(t)
	d := downloader{cache: cache, url: server.URL, account: serverAccount()}
	if _, err := d.fetch(t.Context()); err == nil {
		t.Error("no error")
	}
	if left := globbed(cache, "*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestDownloadEndsWithItsContext(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1)
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-release
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	cache := publicDir(t)
	d := downloader{cache: cache, url: server.URL, account: serverAccount()}
	if _, err := d.fetch(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want context.Canceled", err)
	}
	close(release)
	eventually(t, "the abandoned download cleans up", func() bool { return len(globbed(cache, "scratch-*")) == 0 })
}
