package extract_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/extract"
	"github.com/fetcherhq/fetcher/results"
	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/testkit"
)

// On S3, too, a result per table is whole or not there, and a later attempt clears what an earlier one left.
func TestTablesOnS3(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("s", 1000)
	s := &script{tables: map[string]table{"a": {rows: 12_000, text: func(int) string { return text }}, "b": {rows: 2}}}
	b := newBench(t, s)
	keys, err := secret.NewKeyring(secret.Key{Version: 1, Bytes: bytes.Repeat([]byte{1}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	if b.Store, err = results.Open(t.Context(), testkit.S3(t), keys, results.Options{KeyPrefix: uuid.NewString()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Store.Close() })
	for _, format := range []string{extract.FormatCSV, extract.FormatParquet} {
		j := formatted(format, extract.CompressionNone, ds("d", 0, "a", "b"))
		j.Key = b.Store.Key("acme", "external-data", j.Output.ObjectName(j.ID.String()))
		got, err := b.run(t, j)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range got.Tables {
			if content := b.object(t, 1, f); int64(len(content)) != f.SizeBytes {
				t.Errorf("%s: %d bytes", f.Path, len(content))
			}
		}
		j.Retry = true
		s.tables["b"] = table{rows: 2, err: srcErr(source.CategoryBroken, true)}
		if _, err := b.run(t, j); err == nil {
			t.Fatal("no failure")
		}
		s.tables["b"] = table{rows: 2}
		for _, key := range []string{got.Facts.Key, got.Tables[0].Path, got.Tables[1].Path} {
			if err := b.Store.Delete(t.Context(), key); !errors.Is(err, results.ErrGone) {
				t.Errorf("%s: %v", key, err)
			}
		}
	}
}
