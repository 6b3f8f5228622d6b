package jobs_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/jobs"
	"github.com/fetcherhq/fetcher/store"
)

func TestResultKeys(t *testing.T) {
	t.Parallel()
	document, manifest := "a/1.json", "a/1/manifest.json"
	for _, tt := range []struct {
		job  store.Job
		want []string
	}{
		{store.Job{}, nil},
		{store.Job{ResultPath: &document, ResultTables: []byte(`[{"datasource":"d","table":"t","rows":1}]`)}, []string{document}},
		{
			store.Job{ResultPath: &manifest, ResultTables: []byte(`[{"path":"a/1/d/t.csv"},{"path":"a/1/d/u.csv"}]`)},
			[]string{"a/1/d/t.csv", "a/1/d/u.csv", manifest},
		},
	} {
		got, err := jobs.ResultKeys(&tt.job)
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Error(diff)
		}
	}
	if _, err := jobs.ResultKeys(&store.Job{ResultPath: &manifest, ResultTables: []byte(`{`)}); err == nil {
		t.Error("no error")
	}
}
