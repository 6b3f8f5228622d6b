package rotation_test

import (
	"encoding/hex"
	"errors"
	"io"
	"testing"

	"github.com/fetcherhq/fetcher/results"
	"github.com/fetcherhq/fetcher/rotation"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
	"github.com/fetcherhq/fetcher/testkit"
)

func TestContentsOfDocumentsAreStoredAnew(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	row := control.Tenant{ID: acme, DSNSealed: must(tenant.SealDSN(ring(1), acme, testkit.Postgres(t).NewDatabase(t)))}
	if err := p.control.CreateTenant(t.Context(), &row); err != nil {
		t.Fatal(err)
	}
	before := p.with(ring(1))
	facts := must(before.store.Put(t.Context(), acme, []byte("a page"), acme, "content"))
	sum := must(hex.DecodeString(facts.SHA256))
	l := before.lease(t)
	err := l.DB(t.Context()).Create(&store.Blob{
		SHA256: sum, ObjectKey: facts.Key, SizeBytes: facts.SizeBytes, HMAC: facts.HMAC, KeyVersion: facts.KeyVersion,
	}).Error
	l.Release()
	if err != nil {
		t.Fatal(err)
	}

	during := p.with(ring(2, 1))
	must(during.rotator.Registry(t.Context()))
	if _, err = during.rotator.Tenant(t.Context(), acme); err == nil {
		t.Error("contents stay under their former key, and nobody says so")
	}
	during.rotator.Content = during.store
	if got := must(during.rotator.Tenant(t.Context(), acme)); got != (rotation.Counts{Contents: 1}) {
		t.Errorf("first rotation: %+v", got)
	}
	if got := must(during.rotator.Tenant(t.Context(), acme)); got != (rotation.Counts{}) {
		t.Errorf("second rotation: %+v", got)
	}

	after := p.with(ring(2))
	var blob store.Blob
	l = after.lease(t)
	err = l.DB(t.Context()).First(&blob).Error
	l.Release()
	if err != nil {
		t.Fatal(err)
	}
	reader := must(after.store.OpenReader(t.Context(), acme, results.Facts{
		Key: blob.ObjectKey, SizeBytes: blob.SizeBytes, SHA256: hex.EncodeToString(blob.SHA256), HMAC: blob.HMAC, KeyVersion: blob.KeyVersion,
	}))
	defer func() { _ = reader.Close() }()
	if got := string(must(io.ReadAll(reader))); got != "a page" {
		t.Errorf("content %q", got)
	}
	if _, err := before.store.OpenReader(t.Context(), acme, facts); !errors.Is(err, results.ErrGone) {
		t.Errorf("the content under the former key: %v, want ErrGone", err)
	}
}
