package charts

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// TestReadme: the chart's README lists every value, with its default and what its comment in values.yaml says.
func TestReadme(t *testing.T) {
	t.Parallel()
	const path = "fetcher/README.md"
	const begin, end = "<!-- values -->\n", "<!-- /values -->\n"
	text := read(t, path)
	head, rest, ok := strings.Cut(text, begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table", path)
	}
	golden(t, path, head+begin+valuesTable(t)+end+tail)
}

func valuesTable(t *testing.T) string {
	t.Helper()
	file, err := parser.ParseBytes([]byte(read(t, "fetcher/values.yaml")), parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	root, ok := file.Docs[0].Body.(*ast.MappingNode)
	if !ok {
		t.Fatal("values.yaml is no mapping")
	}
	var b strings.Builder
	b.WriteString("| Value | Default | Meaning |\n|---|---|---|\n")
	tabulate(t, &b, "", root.Values)
	return b.String()
}

// tabulate writes a line for every leaf, and for every mapping that is empty or written on one line.
func tabulate(t *testing.T, b *strings.Builder, prefix string, values []*ast.MappingValueNode) {
	t.Helper()
	for _, entry := range values {
		name := prefix + entry.Key.String()
		if inner, ok := entry.Value.(*ast.MappingNode); ok && !inner.IsFlowStyle && (len(inner.Values) > 0) {
			if meaning(entry) != "" {
				fmt.Fprintf(b, "| `%s` | | %s |\n", name, meaning(entry))
			}
			tabulate(t, b, name+".", inner.Values)
			continue
		}
		var value any
		if err := yaml.NodeToValue(entry.Value, &value); err != nil {
			t.Fatal(err)
		}
		content, err := yaml.MarshalWithOptions(value, yaml.Flow(true))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(b, "| `%s` | `%s` | %s |\n", name, strings.TrimSpace(string(content)), meaning(entry))
	}
}

// meaning is the comment above a value, from the line that begins with two dashes on.
func meaning(entry *ast.MappingValueNode) string {
	if entry.GetComment() == nil {
		return ""
	}
	var lines []string
	for _, comment := range entry.GetComment().Comments {
		lines = append(lines, strings.TrimSpace(strings.TrimPrefix(comment.String(), "#")))
	}
	first := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "-- ") })
	if first < 0 {
		return ""
	}
	return strings.ReplaceAll(strings.TrimPrefix(strings.Join(lines[first:], " "), "-- "), "|", "\\|")
}
