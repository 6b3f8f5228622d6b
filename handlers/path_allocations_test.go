//go:build !race

package handlers

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/store"
)

// unread takes an answer that nobody reads.
type unread struct {
	header http.Header
	status int
}

func (w *unread) Header() http.Header         { return w.header }
func (w *unread) Write(p []byte) (int, error) { return len(p), nil }
func (w *unread) WriteHeader(status int)      { w.status = status }

// TestAllocationsOfARequest bounds what a request allocates once everything about it is remembered: in the stages alone, and
// with the operation and the encoding of its answer, but for the query. It must have the process to itself.
func TestAllocationsOfARequest(t *testing.T) { //nolint:paralleltest // allocations are counted over all goroutines
	now := time.Now().UTC()
	p := newRequestPath(t, &store.Connection{
		ID: uuid.New(), ConfigName: "ledger", ProductName: new("ledger"), Kind: "POSTGRESQL", Host: "h", Port: 1, DatabaseName: "d",
		UserName: "u", Metadata: []byte(`{"team":"core"}`), Revision: 1, CreatedAt: now, UpdatedAt: now,
	})
	for _, tt := range []struct {
		name, path string
		status     int
		most       float64
	}{
		{"stages", pathOfNothing, http.StatusNoContent, 20},
		{"connection", connectionsPath + "/" + p.id.String(), http.StatusOK, 32},
	} {
		request := p.request(t, tt.path)
		w := &unread{header: http.Header{}}
		got := testing.AllocsPerRun(1000, func() {
			clear(w.header)
			p.handler.ServeHTTP(w, request)
		})
		if w.status != tt.status {
			t.Fatalf("%s: answered %d", tt.name, w.status)
		}
		t.Logf("%s: %.0f allocations", tt.name, got)
		if got > tt.most {
			t.Errorf("%s: %.0f allocations, more than %.0f", tt.name, got, tt.most)
		}
	}
}
