package fetch

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The limits of the published contract.
func TestDefaults(t *testing.T) {
	t.Parallel()
	var got Options
	setDefaults(&got)
	want := Options{
		UserAgent: "Fetcher-Documents/1.0", ConnectTimeout: 5 * time.Second, TLSTimeout: 5 * time.Second,
		HeaderTimeout: 10 * time.Second, Timeout: 30 * time.Second, MaxHeaderBytes: 65_536, MaxBody: 8_388_608,
	}
	if got.Resolver == nil || got.RootCAs != nil {
		t.Errorf("resolver %v, roots %v", got.Resolver, got.RootCAs)
	}
	got.Resolver = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
