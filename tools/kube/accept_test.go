package kube

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// companions are the values that a switch needs beside it.
var companions = map[string][]string{
	"httpRoute.enabled": {"httpRoute.parentRefs[0].name=public"},
	"ingress.enabled":   {"ingress.hosts={fetcher.example}"},
}

// unrestricted are the examples for namespaces that admit any pod: they mount a folder of the node.
var unrestricted = map[string]string{"kind.yaml": "default"}

// accepts shows the server every object that the chart makes from its default values, from every example and with every
// boolean value the other way round.
func (p *place) accepts(t *testing.T) {
	misspelt := Object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": Object{"name": "misspelt"}, "datum": Object{}}
	if err := p.admin.Check(t, misspelt, namespace); err == nil || !strings.Contains(err.Error(), "datum") {
		t.Errorf("the server said %v of a member that it does not know", err)
	}

	base := []string{"--set", "existingSecret=" + secret}
	defaults := p.accepted(t, "default values", namespace, base...)

	examples, err := filepath.Glob(filepath.Join(chart, "examples", "*.yaml"))
	if err != nil || len(examples) == 0 {
		t.Fatalf("%d examples: %v", len(examples), err)
	}
	for _, path := range examples {
		name := filepath.Base(path)
		where, ok := unrestricted[name]
		if !ok {
			where = namespace
		}
		p.accepted(t, "example "+name, where, "--values", path)
	}

	// The table of the chart's other tests.
	content, err := os.ReadFile(filepath.Join(chart, "..", "testdata", "toggles.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var table map[string][]string
	if err := yaml.Unmarshal(content, &table); err != nil || len(table) == 0 {
		t.Fatalf("%d toggles: %v", len(table), err)
	}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		p.accepted(t, "toggle "+name, namespace, append(base, set(table[name]...)...)...)
	}

	switches := p.switches(t)
	for _, path := range slices.Sorted(maps.Keys(switches)) {
		name := fmt.Sprintf("%s=%v", path, !switches[path])
		flags := slices.Concat(base, set(companions[path]...), set(name))
		if rendered := p.accepted(t, name, namespace, flags...); rendered == defaults {
			t.Errorf("%s changes nothing", name)
		}
	}
}

// fullInstall installs a release that turns on all it can, with a Secret of the chart's own, and removes it.
func (p *place) fullInstall(t *testing.T) {
	before := p.everything(t)
	flags := []string{"--values", values(t, Object{"secrets": Object{
		"DATABASE_URL": "postgres://fetcher@db.example/fetcher", "RESULTS_URL": "s3://results",
		"APP_ENC_KEY": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
	}})}
	for path := range p.switches(t) {
		if path == "worker.keda.enabled" { // in the place of the worker's own autoscaler
			continue
		}
		flags = append(flags, set(append(companions[path], path+"=true")...)...)
	}
	p.helm.Must(t, slices.Concat([]string{"install", "full", chart, "--wait", "--timeout", "5m"}, flags)...)
	pods := p.running(t, "full")
	if diff := cmp.Diff([]string{"manager", "worker"}, components(pods)); diff != "" {
		t.Errorf("components that run (-want +got):\n%s", diff)
	}
	if refused := p.refusals(t); len(refused) > 0 {
		t.Errorf("pods were refused: %q", refused)
	}
	p.reached(t, "full")
	var made []string
	for id := range p.everything(t) {
		if _, ok := before[id]; !ok {
			made = append(made, id)
		}
	}
	slices.Sort(made)
	t.Logf("made %s", strings.Join(made, ", "))
	p.helm.Must(t, "uninstall", "full", "--wait", "--timeout", "5m")
	p.gone(t, before)
}

// switches returns path → default of every boolean value of the chart.
func (p *place) switches(t *testing.T) map[string]bool {
	t.Helper()
	var known Object
	if err := yaml.Unmarshal([]byte(p.helm.Must(t, "show", "values", chart)), &known); err != nil {
		t.Fatal(err)
	}
	return booleans(known, "")
}

// render renders the chart as the server's capabilities make it.
func (p *place) render(t *testing.T, flags ...string) (string, error) {
	t.Helper()
	return p.helm.Run(t, slices.Concat([]string{"template", "fetcher", chart, "--validate"}, flags)...)
}

// accepted renders the chart, shows the server each object, and returns what was rendered. The ServiceAccount of a pod
// is made and removed again: the server takes no pod, not even for a look, whose account is not there.
func (p *place) accepted(t *testing.T, name, where string, flags ...string) string {
	t.Helper()
	rendered, err := p.render(t, flags...)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return ""
	}
	objects, err := Objects([]byte(rendered))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	seen := map[string]int{}
	for _, object := range objects {
		seen[fmt.Sprint(object["kind"])]++
		if account, ok := dig(object, "spec", "serviceAccountName").(string); ok && account != "default" {
			p.admin.Apply(t, Object{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": Object{"name": account, "namespace": where}})
			defer p.admin.Delete(t, "/api/v1/namespaces/"+where+"/serviceaccounts/"+account)
		}
	}
	for _, object := range objects {
		if err := p.admin.Check(t, object, where); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(seen)) {
		kinds = append(kinds, fmt.Sprintf("%d %s", seen[kind], kind))
	}
	t.Logf("%s: accepted %s", name, strings.Join(kinds, ", "))
	return rendered
}

// set returns the flags that set values.
func set(assignments ...string) []string {
	var flags []string
	for _, assignment := range assignments {
		flags = append(flags, "--set", assignment)
	}
	return flags
}

// booleans returns path → value of every boolean below value.
func booleans(value any, path string) map[string]bool {
	found := map[string]bool{}
	switch v := value.(type) {
	case bool:
		found[path] = v
	case Object:
		for name, member := range v {
			maps.Copy(found, booleans(member, strings.TrimPrefix(path+"."+name, ".")))
		}
	}
	return found
}
