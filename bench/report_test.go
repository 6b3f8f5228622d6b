package bench

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// String is the row of the log.
func (r row) String() string {
	return strings.Join(r.cells(), " | ")
}

func (r row) cells() []string {
	name := r.measurement + ": " + r.what
	if r.failed {
		return []string{name, "failed", r.against, "", r.goal.text(r.unit), "**no**"}
	}
	cells := []string{name, spread(r.product) + " " + r.unit, "", "", r.goal.text(r.unit), ""}
	ratio := 0.0
	if len(r.ratios) > 0 {
		ratio = median(r.ratios)
		cells[2] = r.against + ": " + spread(r.reference) + " " + r.unit
		cells[3] = spread(r.ratios)
	}
	cells[5] = r.goal.reached(median(r.product), ratio)
	return cells
}

// spread is a median and, if there were several rounds, the least and the most of them.
func spread(values []float64) string {
	if len(values) == 1 {
		return digits(values[0])
	}
	return fmt.Sprintf("%s (%s to %s)", digits(median(values)), digits(slices.Min(values)), digits(slices.Max(values)))
}

// digits writes a number with three significant digits, or all of them before the point, in groups.
func digits(x float64) string {
	if x == 0 {
		return "0"
	}
	places := max(0, 2-int(math.Floor(math.Log10(math.Abs(x)))))
	text := strconv.FormatFloat(x, 'f', places, 64)
	whole, fraction, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		return whole + "." + fraction
	}
	return whole
}

func (s *section) markdown() string {
	var b strings.Builder
	b.WriteString("| Measurement | Product | Reference | Ratio | Goal | Reached |\n|---|---|---|---|---|---|\n")
	for _, r := range s.rows {
		cells := r.cells()
		for i, cell := range cells {
			cells[i] = strings.ReplaceAll(cell, "|", `\|`)
		}
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	for _, n := range s.notes {
		b.WriteString("\n" + n + "\n")
	}
	return b.String()
}

// writeSection replaces what is between a section's markers in a file, or adds the section at its end.
func writeSection(path, name, body string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(withSection(string(content), name, body)), 0o644) // #nosec G306 -- documentation
}

func withSection(content, name, body string) string {
	begin, end := "<!-- begin "+name+" -->\n", "<!-- end "+name+" -->\n"
	before, rest, found := strings.Cut(content, begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		before, after = strings.TrimRight(content, "\n")+"\n\n", ""
	}
	return before + begin + body + end + after
}

func TestReport(t *testing.T) {
	t.Parallel()
	s := &section{rows: []row{
		{measurement: "get", against: "a|b", figure: figure{"rate", "1/s", ratioAtLeast(0.8)}, product: []float64{900, 1000, 1100}, reference: []float64{1000, 2000, 1000}, ratios: []float64{0.9, 0.5, 1.1}},
		{measurement: "get", figure: figure{"wait", "ms", atMost(2)}, product: []float64{2.5}},
		{measurement: "get", figure: figure{"memory", "MiB", atMost(2)}, failed: true},
		{measurement: "get", figure: figure{"size", "B", bound{}}, product: []float64{1234567}},
	}, notes: []string{"Note."}}
	want := `# Title

<!-- begin one -->
| Measurement | Product | Reference | Ratio | Goal | Reached |
|---|---|---|---|---|---|
| get: rate | 1,000 (900 to 1,100) 1/s | a\|b: 1,000 (1,000 to 2,000) 1/s | 0.900 (0.500 to 1.10) | ratio ≥ 0.8 | yes |
| get: wait | 2.50 ms |  |  | ≤ 2 ms | **no** |
| get: memory | failed |  |  | ≤ 2 MiB | **no** |
| get: size | 1,234,567 B |  |  |  |  |

Note.
<!-- end one -->

Prose.
`
	got := withSection("# Title\n\n<!-- begin one -->\nold\n<!-- end one -->\n\nProse.\n", "one", s.markdown())
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if d := cmp.Diff("# Title\n\n<!-- begin two -->\nx\n<!-- end two -->\n", withSection("# Title\n", "two", "x\n")); d != "" {
		t.Errorf("added: -want +got:\n%s", d)
	}
}
