package bench

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// bound is what a figure must reach: its ratio to the reference, or the product's value itself. A bound of 0 is none.
type bound struct {
	ratio    bool
	min, max float64
}

func ratioAtLeast(x float64) bound { return bound{ratio: true, min: x} }
func ratioAtMost(x float64) bound  { return bound{ratio: true, max: x} }
func atLeast(x float64) bound      { return bound{min: x} }
func atMost(x float64) bound       { return bound{max: x} }

func (b bound) text(unit string) string {
	sign, limit := "≥", b.min
	if b.max > 0 {
		sign, limit = "≤", b.max
	}
	switch {
	case limit == 0:
		return ""
	case b.ratio:
		return fmt.Sprintf("ratio %s %g", sign, limit)
	}
	return fmt.Sprintf("%s %g %s", sign, limit, unit)
}

// reached says it in a word, for a goal.
func (b bound) reached(value, ratio float64) string {
	if b.ratio {
		value = ratio
	}
	switch {
	case b.min == 0 && b.max == 0:
		return ""
	case value >= b.min && (b.max == 0 || value <= b.max):
		return "yes"
	}
	return "**no**"
}

// figure is one number of a measurement.
type figure struct {
	what string
	unit string
	goal bound
}

// measurement is what one round gives: the figures of the product and, where there is a reference, the same figures of
// that, right after it. Rounds are 3 unless set.
type measurement struct {
	name      string
	against   string
	figures   []figure
	rounds    int
	product   func(t *testing.T) []float64
	reference func(t *testing.T) []float64
}

// row is a figure over all rounds.
type row struct {
	figure

	measurement, against       string
	failed                     bool
	product, reference, ratios []float64
}

// section is the table of one suite. A measurement that fails is a row like the others and keeps none from running.
type section struct {
	world *world
	rows  []row
	notes []string
}

func (s *section) measure(t *testing.T, m measurement) {
	t.Helper()
	rows := make([]row, len(m.figures))
	for i, f := range m.figures {
		rows[i] = row{measurement: m.name, against: m.against, figure: f, failed: true}
	}
	t.Run(m.name, func(t *testing.T) {
		for range s.world.rounds(m.rounds) {
			ours := m.product(t)
			var theirs []float64
			if m.reference != nil {
				theirs = m.reference(t)
			}
			for i := range rows {
				rows[i].product = append(rows[i].product, ours[i])
				if m.reference != nil {
					rows[i].reference = append(rows[i].reference, theirs[i])
					rows[i].ratios = append(rows[i].ratios, ours[i]/theirs[i])
				}
			}
		}
		if !t.Failed() {
			for i := range rows {
				rows[i].failed = false
			}
		}
	})
	for _, r := range rows {
		t.Log(r)
	}
	s.rows = append(s.rows, rows...)
}

// notef adds a line below the table.
func (s *section) notef(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// suite is a section of the report: measurements that share what they run on.
type suite struct {
	name  string // of the section's markers, and what BENCH chooses by
	heavy bool   // too slow for a smoke run
	run   func(t *testing.T, s *section)
}

func suites() []suite {
	return []suite{
		{"gateway", false, gatewaySuite},
		{"operations", false, operationsSuite},
		{"tenants", false, tenantsSuite},
		{"rotation", true, rotationSuite},
		{"start", false, startSuite},
		{"queue", true, queueSuite},
		{"extraction", true, extractionSuite},
		{"mariadb", true, mysqlSuite},
		{"growth", true, growthSuite},
		{"mongodb", true, mongoSuite},
	}
}

// TestMeasurements runs every suite that BENCH, a regular expression, chooses, at BENCH_SCALE of its full size, and writes
// each section into the file BENCH_INTO as soon as it is complete. Without BENCH_INTO it is a smoke run: as small as can
// be, into a file of its own, where every figure must be there and be a number above 0.
func TestMeasurements(t *testing.T) {
	into, smoke := os.Getenv("BENCH_INTO"), false
	scale := 1.0
	if text := os.Getenv("BENCH_SCALE"); text != "" {
		var err error
		if scale, err = strconv.ParseFloat(text, 64); err != nil || scale <= 0 {
			t.Fatalf("BENCH_SCALE is %q, want a number above 0", text)
		}
	}
	if into == "" {
		if testing.Short() {
			t.Skip("a smoke run starts servers")
		}
		into, scale, smoke = t.TempDir()+"/performance.md", 0.001, true
		if err := os.WriteFile(into, []byte("# Kept\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	chosen, err := regexp.Compile(os.Getenv("BENCH"))
	if err != nil {
		t.Fatal("BENCH:", err)
	}
	w := newWorld(t, scale, smoke)
	for _, one := range suites() {
		if !chosen.MatchString(one.name) || smoke && one.heavy {
			continue
		}
		s := &section{world: w}
		began := time.Now()
		ran := t.Run(one.name, func(t *testing.T) { one.run(t, s) })
		if !ran {
			s.notef("Failed: not every measurement of this section came to its end.")
		}
		s.notef("Took %s at scale %g on %d cores, %s.", time.Since(began).Round(time.Second), scale, runtime.NumCPU(), processor())
		if err := writeSection(into, one.name, s.markdown()); err != nil {
			t.Fatal(err)
		}
		if smoke {
			checkPlausible(t, one.name, s)
		}
	}
	if smoke {
		checkReport(t, into)
	}
}

func checkPlausible(t *testing.T, name string, s *section) {
	t.Helper()
	if len(s.rows) == 0 {
		t.Errorf("%s: no figures", name)
	}
	for _, r := range s.rows {
		for _, value := range slices.Concat(r.product, r.reference) {
			if value <= 0 || value > 1e12 || value != value {
				t.Errorf("%s: %s: %s is %v", name, r.measurement, r.what, value)
			}
		}
	}
}

func checkReport(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(content), "# Kept\n") {
		t.Errorf("the prose is gone: %.100s", content)
	}
}

func processor() string {
	content, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	_, rest, _ := strings.Cut(string(content), "model name")
	name, _, _ := strings.Cut(rest, "\n")
	return strings.TrimLeft(name, "\t :")
}
