package results_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/results"
)

func TestPut(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	for _, body := range []string{"", "A", strings.Repeat("0123456789abcdef", 10_000)} {
		var first results.Facts
		for i := range 3 { // the second and third find the first
			facts, err := s.Put(t.Context(), "acme", []byte(body), "acme", "content")
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				first = facts
			}
			if diff := cmp.Diff(first, facts); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if want := fmt.Sprintf("pre/acme/content/%s.2", facts.SHA256); facts.Key != want {
				t.Errorf("key %s, want %s", facts.Key, want)
			}
			if got := readAll(t, s, facts); got != body {
				t.Errorf("%d bytes, want %d", len(got), len(body))
			}
			if i == 1 { // somebody damages it
				if err := os.WriteFile(filepath.Join(dir, facts.Key), []byte("damaged"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func TestPutBySeveralAtOnce(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			facts, err := s.Put(t.Context(), "acme", []byte("A"), "acme", "content")
			if err != nil || readAll(t, s, facts) != "A" {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestPutIntoFailingStorage(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	if err := os.WriteFile(filepath.Join(dir, "pre"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), "acme", []byte("A"), "acme", "content"); !errors.Is(err, results.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}

func readAll(t *testing.T, s *results.Store, facts results.Facts) string {
	t.Helper()
	body, err := read(t.Context(), s, "acme", facts)
	if err != nil {
		t.Error(err)
	}
	return string(body)
}
