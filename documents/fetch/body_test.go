package fetch_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/documents/fetch"
	"github.com/fetcherhq/fetcher/testkit/webtest"
)

func zipped(t testing.TB, body []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = w.Write(body); err != nil {
		t.Fatal(err)
	}
	if err = w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// serve answers with a body, its length announced or not.
func serve(body []byte, announced bool, coding ...string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/plain")
		if coding != nil {
			rw.Header()["Content-Encoding"] = coding
		}
		if announced {
			rw.Header().Set("Content-Length", strconv.Itoa(len(body)))
		} else {
			_ = http.NewResponseController(rw).Flush()
		}
		_, _ = rw.Write(body)
	}
}

// The limit is on decoded bytes, and exact.
func TestSizes(t *testing.T) {
	t.Parallel()
	whole := bytes.Repeat([]byte("0123456789abcdef"), limit/16+1)
	protocols(t, func(t *testing.T, w *web, o *webtest.Origin, _ string) {
		for _, size := range []int{0, 1, 65535, 65536, 65537, 1 << 20, 1<<20 + 1, limit, limit + 1} {
			for _, announced := range []bool{true, false} {
				for _, compressed := range []bool{false, true} {
					if compressed && announced && size > 1<<20 {
						continue // costly, and no different
					}
					body, h := whole[:size], serve(whole[:size], announced)
					if compressed {
						h = serve(zipped(t, body), announced, "gzip")
					}
					o.Handle("/a", h)
					got, err := w.fetch(t, o.URL("/a"), "")
					want := ""
					if size > limit {
						want = "content_too_large 200"
					}
					if diff := cmp.Diff(want, outcome(t, err)); diff != "" {
						t.Errorf("%d bytes, announced %v, compressed %v: %s", size, announced, compressed, diff)
					}
					if err == nil && (!bytes.Equal(body, got.Body) || got.Body == nil || got.Size != int64(size)) {
						t.Errorf("%d bytes, announced %v, compressed %v: got %d", size, announced, compressed, got.Size)
					}
				}
			}
		}
	})
}

// bomb is 9 MiB in some 10 KB.
func bomb(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(make([]byte, 9<<20))
	if err := w.Close(); err != nil || out.Len() > 10_000 {
		t.Fatalf("%d bytes: %v", out.Len(), err)
	}
	return out.Bytes()
}

func TestCodings(t *testing.T) {
	t.Parallel()
	zeros := bomb(t)
	plain := []byte(strings.Repeat("hello ", 3))
	good := zipped(t, plain)
	flipped := bytes.Clone(good)
	flipped[len(flipped)-6] ^= 1 // in the checksum
	protocols(t, func(t *testing.T, w *web, o *webtest.Origin, _ string) {
		for name, c := range map[string]struct {
			body   []byte
			coding []string
			want   string
		}{
			"gzip":               {good, []string{"gzip"}, ""},
			"gzip, upper case":   {good, []string{" GZIP "}, ""},
			"x-gzip":             {good, []string{"x-gzip"}, ""},
			"identity":           {plain, []string{"identity"}, ""},
			"empty":              {plain, []string{""}, ""},
			"two members":        {append(bytes.Clone(good), zipped(t, nil)...), []string{"gzip"}, ""},
			"a bomb":             {zeros, []string{"gzip"}, "content_too_large 200"},
			"bomb in a bomb":     {zipped(t, zeros), []string{"gzip", "gzip"}, "upstream_protocol_error 200"},
			"gzip twice":         {zipped(t, good), []string{"gzip, gzip"}, "upstream_protocol_error 200"},
			"br":                 {plain, []string{"br"}, "upstream_protocol_error 200"},
			"deflate":            {plain, []string{"deflate"}, "upstream_protocol_error 200"},
			"zstd":               {plain, []string{"zstd"}, "upstream_protocol_error 200"},
			"unheard of":         {plain, []string{"secret"}, "upstream_protocol_error 200"},
			"identity, gzip":     {good, []string{"identity, gzip"}, "upstream_protocol_error 200"},
			"not gzip":           {plain, []string{"gzip"}, "upstream_incomplete 200"},
			"nothing":            {nil, []string{"gzip"}, "upstream_incomplete 200"},
			"cut in the header":  {good[:5], []string{"gzip"}, "upstream_incomplete 200"},
			"cut in the middle":  {good[:len(good)-10], []string{"gzip"}, "upstream_incomplete 200"},
			"cut in the trailer": {good[:len(good)-1], []string{"gzip"}, "upstream_incomplete 200"},
			"wrong checksum":     {flipped, []string{"gzip"}, "upstream_incomplete 200"},
			"garbage behind":     {append(bytes.Clone(good), plain...), []string{"gzip"}, "upstream_incomplete 200"},
		} {
			for _, announced := range []bool{true, false} {
				o.Handle("/a", serve(c.body, announced, c.coding...))
				got, err := w.fetch(t, o.URL("/a"), "")
				if diff := cmp.Diff(c.want, outcome(t, err)); diff != "" {
					t.Errorf("%s, announced %v: %s", name, announced, diff)
				}
				if err == nil && !bytes.Equal(plain, got.Body) {
					t.Errorf("%s: %q", name, got.Body)
				}
			}
		}
	})
}

// Compressed bodies that hold next to nothing are bounded by what they take on the wire.
func TestEndlessMembers(t *testing.T) {
	t.Parallel()
	w := newWeb(t, func(o *fetch.Options) { o.MaxBody = 4096 })
	o := webtest.NewOrigin(t, w.ca)
	o.Handle("/a", serve(bytes.Repeat(zipped(t, nil), 4096), false, "gzip"))
	_, err := w.fetch(t, o.URL("/a"), "")
	if diff := cmp.Diff("content_too_large 200", outcome(t, err)); diff != "" {
		t.Error(diff)
	}
}

// Twenty bodies of the limit's size at once, held together at the end, cost less than 256 MiB.
func TestMemory(t *testing.T) { //nolint:paralleltest // the memory of others must not count
	w := newWeb(t, nil)
	body := bytes.Repeat([]byte("0123456789abcdef"), limit/16)
	compressed := zipped(t, body)
	o := webtest.NewOrigin(t, w.ca)
	o.Handle("/0", serve(body, true))
	o.Handle("/1", serve(body, false))
	o.Handle("/2", serve(compressed, true, "gzip"))
	h1 := webtest.NewOrigin(t, w.ca, webtest.HTTP1Only)
	h1.Handle("/0", serve(body, true))
	h1.Handle("/1", serve(body, false))
	h1.Handle("/2", serve(compressed, false, "gzip"))
	var held [20][]byte
	runtime.GC()
	before := memory()
	var most uint64
	stop, sampled := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sampled)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				most = max(most, memory())
			}
		}
	}()
	var wg sync.WaitGroup
	for i := range held {
		wg.Go(func() {
			origin := []*webtest.Origin{o, h1}[i%2]
			got, err := w.fetch(t, origin.URL("/"+strconv.Itoa(i%3)), "")
			if err != nil {
				t.Error(err)
				return
			}
			held[i] = got.Body
		})
	}
	wg.Wait()
	close(stop)
	<-sampled
	most = max(most, memory())
	for i := range held {
		if !bytes.Equal(held[i], body) {
			t.Errorf("body %d differs", i)
		}
	}
	t.Logf("grew by %d MiB", (most-before)>>20)
	if most > before+256<<20 {
		t.Errorf("grew by %d MiB", (most-before)>>20)
	}
}

// memory is what the process has on its heap, garbage included.
func memory() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A cut, by whatever means and wherever, is told from an end.
func TestCutOverHTTP2(t *testing.T) {
	t.Parallel()
	w := newWeb(t, nil)
	o := webtest.NewOrigin(t, w.ca)
	for path, h := range map[string]http.HandlerFunc{
		"/reset": func(rw http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(rw, "begun")
			_ = http.NewResponseController(rw).Flush()
			panic(http.ErrAbortHandler)
		},
		"/reset-announced": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(rw, "begun")
			_ = http.NewResponseController(rw).Flush()
			panic(http.ErrAbortHandler)
		},
		"/short": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(rw, "begun")
		},
		"/nothing": func(rw http.ResponseWriter, _ *http.Request) { rw.Header().Set("Content-Length", "10") },
	} {
		o.Handle(path, h)
		_, err := w.fetch(t, o.URL(path), "")
		if diff := cmp.Diff("upstream_incomplete 200", outcome(t, err)); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	o.Handle("/abort", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	_, err := w.fetch(t, o.URL("/abort"), "")
	if diff := cmp.Diff("upstream_unavailable 0", outcome(t, err)); diff != "" {
		t.Errorf("aborted before the header: %s", diff)
	}
	o.Handle("/header", func(rw http.ResponseWriter, _ *http.Request) { rw.Header().Set("X-Large", strings.Repeat("a", 70<<10)) })
	_, err = w.fetch(t, o.URL("/header"), "")
	if diff := cmp.Diff("upstream_protocol_error 0", outcome(t, err)); diff != "" {
		t.Errorf("large header: %s", diff)
	}
	o.Handle("/early", func(rw http.ResponseWriter, _ *http.Request) {
		for range 10 {
			rw.WriteHeader(http.StatusEarlyHints)
		}
	})
	if _, err = w.fetch(t, o.URL("/early"), ""); err != nil {
		t.Errorf("early hints: %v", err)
	}
	o.Handle("/flood", func(rw http.ResponseWriter, _ *http.Request) {
		for range 1000 {
			rw.WriteHeader(http.StatusEarlyHints)
		}
	})
	_, err = w.fetch(t, o.URL("/flood"), "")
	if diff := cmp.Diff("upstream_protocol_error 0", outcome(t, err)); diff != "" {
		t.Errorf("flood: %s", diff)
	}
}
