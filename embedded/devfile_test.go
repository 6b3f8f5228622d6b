package embedded

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDevFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := ReadDevFile(dir); !errors.Is(err, ErrNotRunning) {
		t.Errorf("read before it exists: %v, want ErrNotRunning", err)
	}
	want := DevFile{
		API: "http://127.0.0.1:4006", Issuer: "http://127.0.0.1:1", DatabaseURL: "postgres://control",
		Tenants: []DevTenant{{
			ID: "acme", OrgID: "o", DatabaseURL: "postgres://acme",
			Tokens: DevTokens{Admin: "a", Operator: "b", Viewer: "c", Machine: "d"},
		}},
		Sample: SampleInfo{
			Type: "POSTGRESQL", Host: "127.0.0.1", Port: 5, DatabaseName: "sample", UserName: "u", Password: "p",
		},
	}
	if err := WriteDevFile(dir, DevFile{API: "older and longer than the file that replaces it"}); err != nil {
		t.Fatal(err)
	}
	if err := WriteDevFile(dir, want); err != nil {
		t.Fatal(err)
	}
	got, err := ReadDevFile(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	path := filepath.Join(dir, DevFileName)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v", info.Mode())
	}
	// The names are a contract with programs that aren't ours.
	const published = `{"api":"http://127.0.0.1:4006","issuer":"http://127.0.0.1:1","databaseUrl":"postgres://control",
		"tenants":[{"id":"acme","orgId":"o","databaseUrl":"postgres://acme",
			"tokens":{"admin":"a","operator":"b","viewer":"c","machine":"d"}}],
		"sample":{"type":"POSTGRESQL","host":"127.0.0.1","port":5,"databaseName":"sample","userName":"u","password":"p"}}`
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(decoded(t, []byte(published)), decoded(t, data)); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("%d files in the directory", len(entries))
	}

	for range 2 {
		if err := RemoveDevFile(dir); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ReadDevFile(dir); !errors.Is(err, ErrNotRunning) {
		t.Errorf("read after removal: %v, want ErrNotRunning", err)
	}
}

func TestDevFileDamaged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, DevFileName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadDevFile(dir); err == nil {
		t.Error("no error")
	}
}

func decoded(t *testing.T, data []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}
