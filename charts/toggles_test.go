package charts

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/goccy/go-yaml"
)

// toggle is one choice of the values file, on top of the least that is required.
type toggle struct {
	name string
	set  []string
}

// required is the least that an installation must give.
func required() []string { return []string{"--set", "existingSecret=fetcher-secrets"} }

// toggles reads every choice that changes which objects there are, or their shape. The table is a file because the test
// that has an API server, a module of its own, reads it too.
func toggles(t *testing.T) []toggle {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "toggles.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var table map[string][]string
	if err := yaml.Unmarshal(content, &table); err != nil {
		t.Fatal(err)
	}
	if len(table) == 0 {
		t.Fatal("the table of toggles is empty")
	}
	all := make([]toggle, 0, len(table))
	for _, name := range slices.Sorted(maps.Keys(table)) {
		all = append(all, toggle{name, table[name]})
	}
	return all
}

func (o toggle) args() []string {
	args := required()
	for _, set := range o.set {
		args = append(args, "--set", set)
	}
	return args
}
