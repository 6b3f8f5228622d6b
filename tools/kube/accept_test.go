package kube

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// companions are the values that a toggle needs beside it.
var companions = map[string]Object{}

// apart are the toggles that exclude others, left out where all are turned on at once.
var apart = map[string]bool{}

// accepts shows the server every object that the chart makes from its default values, from every example and with every
// boolean value the other way round.
func (p *place) accepts(t *testing.T) {
	misspelt := Object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": Object{"name": "misspelt"}, "datum": Object{}}
	if err := p.admin.Check(t, misspelt, namespace); err == nil || !strings.Contains(err.Error(), "datum") {
		t.Errorf("the server said %v of a member that it does not know", err)
	}

	base := values(t, Object{"existingSecret": secret})
	defaults, _ := p.accepted(t, "default values", "--values", base)

	examples, err := filepath.Glob(filepath.Join(chart, "examples", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, example := range examples {
		p.accepted(t, filepath.Base(example), "--values", base, "--values", example)
	}

	for path, value := range p.toggles(t) {
		beside, ok := companions[path]
		if !ok {
			beside = Object{}
		}
		name := fmt.Sprintf("%s=%v", path, !value)
		rendered, kinds := p.accepted(t, name, "--values", base, "--values", values(t, beside), "--set", name)
		if rendered == defaults {
			t.Errorf("%s changes nothing", name)
		}
		t.Logf("%s: %s", name, strings.Join(kinds, ", "))
	}
}

// fullInstall installs a release that turns on all it can, with a Secret of the chart's own, and removes it.
func (p *place) fullInstall(t *testing.T) {
	before := p.everything(t)
	flags := []string{"--values", values(t, Object{"secrets": Object{
		"DATABASE_URL": "postgres://fetcher@db.example/fetcher", "RESULTS_URL": "s3://results",
		"APP_ENC_KEY": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
	}})}
	for path := range p.toggles(t) {
		if apart[path] {
			continue
		}
		if beside, ok := companions[path]; ok {
			flags = append(flags, "--values", values(t, beside))
		}
		flags = append(flags, "--set", path+"=true")
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

// toggles returns path → default of every boolean value of the chart.
func (p *place) toggles(t *testing.T) map[string]bool {
	t.Helper()
	var known Object
	if err := yaml.Unmarshal([]byte(p.helm.Must(t, "show", "values", chart)), &known); err != nil {
		t.Fatal(err)
	}
	return booleans(known, "")
}

// accepted renders the chart with the server's capabilities, shows the server each object, and returns what was rendered
// and the kinds in it.
func (p *place) accepted(t *testing.T, name string, flags ...string) (rendered string, kinds []string) {
	t.Helper()
	rendered, err := p.helm.Run(t, slices.Concat([]string{"template", "fetcher", chart, "--validate"}, flags)...)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return "", nil
	}
	objects, err := Objects([]byte(rendered))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	seen := map[string]bool{}
	for _, object := range objects {
		seen[fmt.Sprint(object["kind"])] = true
		if err := p.admin.Check(t, object, namespace); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Logf("%s: %d objects are accepted", name, len(objects))
	return rendered, slices.Sorted(maps.Keys(seen))
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
