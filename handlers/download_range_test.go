package handlers_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/handlers"
)

func TestDownloadRanges(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := newService(t, func(o *handlers.Options) { o.Clock = func() time.Time { return now } })
	const block = 64 << 10
	size := 5*block + 123
	content := make([]byte, size)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(content) // never fails
	job := s.complete(t, "acme", content, now.Add(time.Hour))
	path := "/v1/fetcher/" + job.ID.String() + "/result"
	tag := `"` + *job.ResultSHA256 + `"`
	whole := s.expect(t, http.StatusOK, "", http.MethodGet, path, s.token("acme"), "")
	if got := whole.header.Get("Accept-Ranges"); got != "bytes" {
		t.Errorf("Accept-Ranges %q", got)
	}
	for name, tc := range map[string]struct {
		ranges      string
		condition   string
		first, last int // of a 206
		status      int // else
	}{
		"first byte":            {ranges: "bytes=0-0", first: 0, last: 0},
		"inside a block":        {ranges: "bytes=100-200", first: 100, last: 200},
		"over a border":         {ranges: fmt.Sprintf("bytes=%d-%d", block-1, block), first: block - 1, last: block},
		"one block":             {ranges: fmt.Sprintf("bytes=%d-%d", block, 2*block-1), first: block, last: 2*block - 1},
		"many, from the middle": {ranges: fmt.Sprintf("bytes=%d-", block/2), first: block / 2, last: size - 1},
		"the end":               {ranges: "bytes=-50", first: size - 50, last: size - 1},
		"beyond the end":        {ranges: fmt.Sprintf("bytes=%d-%d", size-1, size+100), first: size - 1, last: size - 1},
		"all":                   {ranges: "bytes=0-", first: 0, last: size - 1},
		"if the same":           {ranges: "bytes=7-9", condition: tag, first: 7, last: 9},
		"if another":            {ranges: "bytes=7-9", condition: `"x"`, status: 200},
		"several":               {ranges: "bytes=0-1,5-6", status: 200},
		"malformed":             {ranges: "bytes=9-5", status: 200},
		"after the end":         {ranges: fmt.Sprintf("bytes=%d-", size), status: 416},
		"no last byte":          {ranges: "bytes=-0", status: 416},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			headers := []string{"Range", tc.ranges}
			if tc.condition != "" {
				headers = append(headers, "If-Range", tc.condition)
			}
			got := s.do(t, http.MethodGet, path, s.token("acme"), "", headers...)
			want, wantStatus := content, tc.status
			wantRange := ""
			switch tc.status {
			case 0:
				wantStatus = http.StatusPartialContent
				want = content[tc.first : tc.last+1]
				wantRange = fmt.Sprintf("bytes %d-%d/%d", tc.first, tc.last, size)
			case http.StatusRequestedRangeNotSatisfiable:
				wantRange = fmt.Sprintf("bytes */%d", size)
				if p := got.problem(t); p.Code != "FET-0418" || len(p.Errors) != 1 || p.Errors[0].Location != "header.Range" {
					t.Errorf("problem %+v", p)
				}
				want = []byte(got.body)
			}
			if got.status != wantStatus || got.body != string(want) {
				t.Errorf("status %d, want %d; %d bytes, want %d", got.status, wantStatus, len(got.body), len(want))
			}
			wantHeaders := map[string]string{"Content-Range": wantRange, "Content-Length": fmt.Sprint(len(want))}
			if tc.status != http.StatusRequestedRangeNotSatisfiable {
				for _, name := range []string{"ETag", "Repr-Digest", "Content-Type", "Accept-Ranges"} {
					wantHeaders[name] = whole.header.Get(name)
				}
			}
			for name, value := range wantHeaders {
				if diff := cmp.Diff(value, got.header.Get(name)); diff != "" {
					t.Error(name, diff)
				}
			}
			head := s.do(t, http.MethodHead, path, s.token("acme"), "", headers...)
			if head.status != http.StatusOK || head.body != "" || head.header.Get("Content-Length") != fmt.Sprint(size) || head.header.Get("Content-Range") != "" {
				t.Errorf("HEAD: status %d, %v", head.status, head.header)
			}
			if same := s.do(t, http.MethodGet, path, s.token("acme"), "", append(headers, "If-None-Match", tag)...); same.status != http.StatusNotModified {
				t.Errorf("If-None-Match: status %d", same.status)
			}
		})
	}
	pending := s.addJob(t, "acme", `{"source":"x"}`)
	s.expect(t, 409, "FET-1023", http.MethodGet, "/v1/fetcher/"+pending.ID.String()+"/result", s.token("acme"), "", "Range", "bytes=9-")
}

// TestTamperedRange changes a block of a stored object. No part that holds it may look whole; the others are good.
func TestTamperedRange(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	const block, blocks = 64 << 10, 8
	content := []byte(strings.Repeat("row ", blocks*block/4))
	job := s.complete(t, "acme", content, time.Now().Add(time.Hour))
	file := filepath.Join(s.dir, *job.ResultPath)
	stored, err := os.ReadFile(file)
	must(t, err)
	stored[len(stored)-3*block] ^= 1 // in the last block but two: stored ones are a little larger
	must(t, os.WriteFile(file, stored, 0o600))
	path := "/v1/fetcher/" + job.ID.String() + "/result"
	good := s.expect(t, http.StatusPartialContent, "", http.MethodGet, path, s.token("acme"), "", "Range", fmt.Sprintf("bytes=0-%d", 2*block))
	if good.body != string(content[:2*block+1]) {
		t.Errorf("%d bytes of an untouched part", len(good.body))
	}
	s.expect(t, http.StatusInternalServerError, "FET-0002", http.MethodGet, path, s.token("acme"), "",
		"Range", fmt.Sprintf("bytes=%d-%d", len(content)-3*block+100, len(content)-3*block+110))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+s.token("acme"))
	req.Header.Set("Range", "bytes=1-")
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusPartialContent || !errors.Is(err, io.ErrUnexpectedEOF) || len(body) >= len(content)-1 {
		t.Errorf("status %d, %d bytes, error %v", resp.StatusCode, len(body), err)
	}
	if !strings.Contains(s.logs.String(), "download cut off") {
		t.Error("the log does not tell")
	}
}
