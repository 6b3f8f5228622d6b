package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/fetcherhq/fetcher/"

// allowed is the import table: which packages of ours each package may import. Tests are exempt.
var allowed = map[string][]string{
	"problem":           {},
	"tenantid":          {},
	"config":            {},
	"secret":            {"problem"},
	"dial":              {"problem"},
	"telemetry":         {"problem"},
	"embedded":          {"secret"},
	"store":             {"problem"},
	"store/control":     {"problem"},
	"source":            {"dial", "problem"},
	"source/form":       {},
	"source/mongodb":    {"source", "source/form", "dial", "problem"},
	"source/mysql":      {"source", "source/form", "dial", "problem"},
	"source/oracle":     {"source", "source/form", "dial", "problem"},
	"source/postgres":   {"source", "source/form", "dial", "problem"},
	"source/sqlserver":  {"source", "source/form", "dial", "problem"},
	"results":           {"secret", "problem"},
	"extract":           {"source", "results", "dial", "problem"},
	"tenant":            {"tenantid", "store", "store/control", "secret", "problem"},
	"auth":              {"tenantid", "problem"},
	"connections":       {"store", "source", "secret", "dial", "problem"},
	"jobs":              {"tenant", "extract", "connections", "store", "store/control", "source", "results", "secret", "dial", "problem"},
	"events":            {"tenant", "store", "store/control", "secret", "dial", "problem"},
	"idempotency":       {"store", "secret", "problem"},
	"rotation":          {"connections", "events", "idempotency", "jobs", "results", "store", "store/control", "tenant", "secret", "problem"},
	"documents/weburl":  {"dial"},
	"documents/content": {"documents/weburl"},
	"documents/fetch":   {"documents/weburl", "dial"},
	"documents":         {"documents/weburl", "documents/fetch", "documents/content", "tenant", "results", "store", "problem"},
	"handlers":          {"auth", "tenant", "jobs", "documents", "connections", "idempotency", "results", "store", "source", "telemetry", "problem"},
}

// wirers may import everything: they bring concrete parts together, or are imported by tests only.
var wirers = []string{"cmd/fetcher", "testkit", "source/sourcetest", "bench", "e2e", "charts"}

func TestImportTable(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(rel)
		seen[pkg] = true
		if under(wirers, pkg) {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			imported, ours := strings.CutPrefix(name, module)
			if ours && !mayImport(pkg, imported) {
				t.Errorf("%s imports %s, which the table does not allow", pkg, imported)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range allowed {
		if !seen[pkg] {
			t.Errorf("the table names %s, which does not exist", pkg)
		}
	}
}

// mayImport applies the table. What is internal to a package is part of it and of the packages below it.
func mayImport(pkg, imported string) bool {
	self, _, _ := strings.Cut(pkg, "/internal/")
	if owner, _, internal := strings.Cut(imported, "/internal/"); internal {
		return under([]string{owner}, self)
	}
	return slices.Contains(allowed[self], imported)
}

func under(roots []string, pkg string) bool {
	return slices.ContainsFunc(roots, func(root string) bool { return pkg == root || strings.HasPrefix(pkg, root+"/") })
}
