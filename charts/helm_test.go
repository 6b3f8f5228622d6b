// Package charts checks the Helm chart: against the code it installs, with Helm itself, and against the schemas of
// Kubernetes and of the operators it has objects for.
package charts

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/fetcherhq/fetcher/testkit"
)

//nolint:gochecknoglobals // a flag
var update = flag.Bool("update", false, "write the golden files, the generated parts of the schema and the chart's README anew")

// kubeVersion is the version that templates are rendered for; the schemas are of the same.
const kubeVersion = "1.36.3"

func TestMain(m *testing.M) { testkit.Main(m) }

// tool returns the path of a program of the module in tools/chart, which the go command builds once and keeps.
func tool(t *testing.T, name string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "tool", "-modfile=../tools/chart/go.mod", "-n", name)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("building %s: %v\n%s", name, err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

// helm runs one command of Helm that knows nothing of the user's clusters, plugins and repositories.
type helm struct{ path, home string }

func newHelm(t *testing.T) helm {
	t.Helper()
	// Helm reads the chart in a process of its own. The go command only tests anew what it has seen the test open.
	if err := os.CopyFS(t.TempDir(), os.DirFS("fetcher")); err != nil {
		t.Fatal(err)
	}
	return helm{tool(t, "helm"), t.TempDir()}
}

func (h helm) run(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	cmd := exec.CommandContext(ctx, h.path, args...)
	cmd.Env = []string{"HOME=" + h.home, "HELM_CACHE_HOME=" + h.home, "HELM_CONFIG_HOME=" + h.home, "HELM_DATA_HOME=" + h.home}
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	err = cmd.Run()
	return out.String(), problems.String(), err
}

// render is what `helm template` prints of the release "gateway" in the namespace "data".
func (h helm) render(t *testing.T, args ...string) string {
	t.Helper()
	out, problems, err := h.template(t, args...)
	if err != nil {
		t.Fatalf("helm template %s: %v\n%s", strings.Join(args, " "), err, problems)
	}
	return out
}

func (h helm) template(t *testing.T, args ...string) (out, problems string, err error) {
	t.Helper()
	return h.run(t.Context(), append([]string{"template", "gateway", "fetcher", "--namespace", "data", "--kube-version", kubeVersion}, args...)...)
}

// refuses checks that the values are refused with a message that has all the parts.
func (h helm) refuses(t *testing.T, args []string, parts ...string) {
	t.Helper()
	_, problems, err := h.template(t, args...)
	if err == nil {
		t.Fatalf("helm template %s went well", strings.Join(args, " "))
	}
	for _, part := range parts {
		if !strings.Contains(problems, part) {
			t.Errorf("helm template %s does not name %q:\n%s", strings.Join(args, " "), part, problems)
		}
	}
}

// object is a Kubernetes object, or a part of one.
type object map[string]any

func (o object) at(path ...string) object {
	for _, name := range path {
		next, _ := o[name].(map[string]any)
		o = next
	}
	return o
}

func (o object) list(name string) []object {
	items, _ := o[name].([]any)
	out := make([]object, 0, len(items))
	for _, item := range items {
		next, _ := item.(map[string]any)
		out = append(out, next)
	}
	return out
}

func (o object) text(name string) string {
	text, _ := o[name].(string)
	return text
}

func (o object) id() string { return o.text("kind") + "/" + o.at("metadata").text("name") }

// documents takes apart what Helm printed, by kind and name.
func documents(t *testing.T, rendered string) map[string]object {
	t.Helper()
	out := map[string]object{}
	for _, text := range split(rendered) {
		var o object
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			t.Fatalf("%v in:\n%s", err, text)
		}
		if _, twice := out[o.id()]; twice {
			t.Errorf("%s is there twice", o.id())
		}
		out[o.id()] = o
	}
	return out
}

// split is the text of every object.
func split(rendered string) []string {
	var out []string
	for part := range strings.SplitSeq("\n"+rendered, "\n---\n") {
		if strings.TrimSpace(part) != "" {
			out = append(out, strings.TrimSpace(part)+"\n")
		}
	}
	return out
}

func examples(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("fetcher/examples/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	return paths
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// golden compares with a file, or writes it.
func golden(t *testing.T, path, got string) {
	t.Helper()
	got = regexp.MustCompile(`(?m)^(\+? ? fetcher\.json: \|).*\n(?:\+?    .*\n|\+?\n)+`).ReplaceAllString(got, "$1 (dashboards/fetcher.json)\n")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want := read(t, path); got != want {
		t.Errorf("%s is not what the chart gives; look at it and run go test ./charts -update\n%s", path, firstDifference(want, got))
	}
}

func firstDifference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return "- " + a[i] + "\n+ " + b[i]
		}
	}
	return "one is the beginning of the other"
}

//nolint:gochecknoglobals // the schemas are made once for all tests
var schemas = sync.OnceValues(makeSchemas)
