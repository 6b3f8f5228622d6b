package charts

import (
	"bufio"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// use is one metric that an alert or a panel selects, as tools/observe prints it.
type use struct {
	File   string   `json:"file"`
	Where  string   `json:"where"`
	Metric string   `json:"metric"`
	Labels []string `json:"labels"`
}

// TestMonitoring: alerts and dashboard are what Prometheus and Grafana read, by their own parsers and types, and select
// nothing but metrics and labels there are.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	var files []string
	for _, pattern := range []string{"fetcher/alerts/*.yaml", "fetcher/dashboards/*.json"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, path := range found {
			read(t, path) // so that a change of it is seen
			absolute, err := filepath.Abs(path)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, absolute)
		}
	}
	read(t, "../tools/observe/main.go")
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"run", "-C", "../tools/observe", "."}, files...)...).Output()
	if err != nil {
		problems := ""
		if failed, ok := err.(*exec.ExitError); ok {
			problems = string(failed.Stderr)
		}
		t.Fatalf("%v\n%s", err, problems)
	}
	known, used := families(t), map[string]bool{}
	lines := bufio.NewScanner(strings.NewReader(string(out)))
	for lines.Scan() {
		var u use
		if err := json.Unmarshal(lines.Bytes(), &u); err != nil {
			t.Fatal(err)
		}
		labels, ok := known[u.Metric]
		if !ok {
			t.Errorf("%s, %s: there is no metric %s", u.File, u.Where, u.Metric)
			continue
		}
		used[u.Metric] = true
		for _, label := range u.Labels {
			if !slices.Contains([]string{"job", "instance", "le"}, label) && !slices.Contains(labels, label) {
				t.Errorf("%s, %s: %s has no label %s", u.File, u.Where, u.Metric, label)
			}
		}
	}
	if len(used) < 30 {
		t.Errorf("only %d metrics are used", len(used))
	}
}

// families is every series there is with its labels, of the list that e2e holds against a gateway at work; a histogram
// has three.
func families(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{"up": nil}
	for line := range strings.Lines(read(t, "../e2e/testdata/metrics.txt")) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		kind, labels, _ := strings.Cut(rest, " ")
		names := []string{name}
		if kind == "histogram" {
			names = []string{name + "_bucket", name + "_sum", name + "_count"}
		}
		for _, n := range names {
			out[n] = strings.Split(labels, ",")
		}
	}
	return out
}

// TestAlerts: every alert says how bad it is, what happened, and where it is explained.
func TestAlerts(t *testing.T) {
	t.Parallel()
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Labels      map[string]string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "fetcher/alerts/fetcher.yaml")), &rules); err != nil {
		t.Fatal(err)
	}
	for _, group := range rules.Groups {
		for _, r := range group.Rules {
			if !slices.Contains([]string{"critical", "warning"}, r.Labels["severity"]) || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s: %v %v", r.Alert, r.Labels, r.Annotations)
			}
			if want := "docs/operations.md#" + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
				t.Errorf("%s: runbook_url is %q", r.Alert, r.Annotations["runbook_url"])
			}
		}
	}
}
