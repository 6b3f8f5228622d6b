package kube

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestChart takes the chart through the life of a release on a real API server, one step after the other.
func TestChart(t *testing.T) {
	p := newPlace(t)
	empty := p.everything(t)
	file := values(t, Object{"existingSecret": secret})
	install := []string{"fetcher", chart, "--values", file, "--wait", "--timeout", "5m"}
	upgrade := func(more ...string) []string { return slices.Concat([]string{"upgrade"}, install, more) }
	var pods map[string]string

	steps := []struct {
		name string
		run  func(t *testing.T)
	}{
		{"pods that are not restricted are refused", func(t *testing.T) {
			err := p.admin.Check(t, Object{
				"apiVersion": "v1", "kind": "Pod", "metadata": Object{"name": "careless"},
				"spec": Object{"containers": []Object{{"name": "careless", "image": "careless"}}},
			}, namespace)
			if err == nil || !strings.Contains(err.Error(), "violates PodSecurity") {
				t.Errorf("the server said %v of a pod without a security context", err)
			}
		}},
		{"every example and toggle is accepted", p.accepts},
		{"install", func(t *testing.T) {
			since := p.now(t)
			p.helm.Must(t, slices.Concat([]string{"install"}, install)...)
			pods = p.running(t, "fetcher")
			if diff := cmp.Diff([]string{"manager", "worker"}, components(pods)); diff != "" {
				t.Errorf("components that run (-want +got):\n%s", diff)
			}
			if refused := p.refusals(t); len(refused) > 0 {
				t.Errorf("pods were refused: %q", refused)
			}
			at, outcome := p.migrated(t, since)
			if deployed := p.touched(t, since); outcome != "Complete" || deployed < at {
				t.Errorf("the migration ended as %s at %d, the first Deployment is of %d", outcome, at, deployed)
			}
			p.reached(t, "fetcher")
			t.Logf("%d pods run, made after the migration had completed; the Service leads to the managers, the disruption budgets count each component", len(pods))
		}},
		{"upgrade without a change", func(t *testing.T) {
			p.helm.Must(t, upgrade()...)
			if after := p.running(t, "fetcher"); kept(pods, after) != len(pods) {
				t.Errorf("%d of %d pods stayed", kept(pods, after), len(pods))
			}
			t.Log("every pod stayed")
		}},
		{"upgrade with a changed variable", func(t *testing.T) {
			since := p.now(t)
			p.helm.Must(t, upgrade("--set", "config.LOG_LEVEL=debug")...)
			after := p.running(t, "fetcher")
			if len(after) != len(pods) || kept(pods, after) != 0 {
				t.Errorf("%d pods after %d, of which %d stayed", len(after), len(pods), kept(pods, after))
			}
			at, outcome := p.migrated(t, since)
			if changed := p.touched(t, since); outcome != "Complete" || changed < at {
				t.Errorf("the migration ended as %s at %d, the first Deployment changed at %d", outcome, at, changed)
			}
			pods = after
			t.Log("every pod was replaced, after the migration")
		}},
		{"upgrade with a value that is not known", func(t *testing.T) {
			before, revisions := p.everything(t), p.helm.Revisions(t, "fetcher")
			_, err := p.helm.Run(t, upgrade("--set", "replicaz=3")...)
			if err == nil || !strings.Contains(err.Error(), "replicaz") {
				t.Fatalf("helm said %v", err)
			}
			if diff := cmp.Diff(before, p.everything(t)); diff != "" {
				t.Errorf("the namespace changed:\n%s", diff)
			}
			if diff := cmp.Diff(revisions, p.helm.Revisions(t, "fetcher")); diff != "" {
				t.Errorf("the release changed:\n%s", diff)
			}
			t.Log("refused by the schema, nothing changed")
		}},
		{"upgrade whose migration fails", func(t *testing.T) {
			since, before := p.now(t), p.deployments(t, "fetcher")
			_, err := p.helm.Run(t, upgrade("--set", "config.LOG_LEVEL=debug,image.tag=fails,migration.backoffLimit=0")...)
			if err == nil || !strings.Contains(err.Error(), "pre-upgrade hooks failed") {
				t.Fatalf("helm said %v", err)
			}
			if _, outcome := p.migrated(t, since); outcome != "Failed" {
				t.Errorf("the migration ended as %s", outcome)
			}
			revisions := p.helm.Revisions(t, "fetcher")
			if diff := cmp.Diff([]string{"deployed", "failed"}, revisions[len(revisions)-2:]); diff != "" {
				t.Errorf("the last revisions (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(specs(before), specs(p.deployments(t, "fetcher"))); diff != "" {
				t.Errorf("the Deployments changed:\n%s", diff)
			}
			if after := p.running(t, "fetcher"); kept(pods, after) != len(pods) {
				t.Errorf("%d of %d pods stayed", kept(pods, after), len(pods))
			}
			t.Log("the release failed, every pod of the former revision stayed")
		}},
		{"upgrade after the failed one", func(t *testing.T) {
			p.helm.Must(t, upgrade("--set", "config.LOG_LEVEL=debug")...)
			if after := p.running(t, "fetcher"); kept(pods, after) != len(pods) {
				t.Errorf("%d of %d pods stayed", kept(pods, after), len(pods))
			}
			t.Log("the release is well again; it is what runs already")
		}},
		{"test", func(t *testing.T) {
			out := p.helm.Must(t, "test", "fetcher", "--timeout", "5m")
			if !strings.Contains(out, "Phase:          Succeeded") {
				t.Errorf("helm printed %s", out)
			}
			t.Log("the release's own test succeeded")
		}},
		{"rollback", func(t *testing.T) {
			before := p.running(t, "fetcher")
			p.helm.Must(t, "rollback", "fetcher", "1", "--wait", "--timeout", "5m")
			after := p.running(t, "fetcher")
			if len(after) != len(before) || kept(before, after) != 0 {
				t.Errorf("%d pods after %d, of which %d stayed", len(after), len(before), kept(before, after))
			}
			for id, content := range p.everything(t) {
				if strings.HasPrefix(id, "ConfigMap/") && strings.Contains(content, "debug") {
					t.Errorf("%s is not as it was: %s", id, content)
				}
			}
			t.Log("back to the first revision, every pod was replaced")
		}},
		{"uninstall", func(t *testing.T) {
			p.helm.Must(t, "uninstall", "fetcher", "--wait", "--timeout", "5m")
			p.gone(t, empty)
			t.Log("nothing is left")
		}},
		{"install with everything on", p.fullInstall},
		{"install whose migration fails", func(t *testing.T) {
			_, err := p.helm.Run(t, "install", "broken", chart, "--values", file, "--timeout", "5m",
				"--set", "image.tag=fails,migration.backoffLimit=0")
			if err == nil || !strings.Contains(err.Error(), "failed pre-install") {
				t.Fatalf("helm said %v", err)
			}
			if made := p.deployments(t, "broken"); len(made) != 0 {
				t.Errorf("Deployments were made: %v", specs(made))
			}
			p.helm.Must(t, "uninstall", "broken", "--wait", "--timeout", "5m")
			var kinds []string
			for id := range p.everything(t) {
				if _, ok := empty[id]; !ok {
					kinds = append(kinds, id[:strings.Index(id, "/")])
				}
			}
			slices.Sort(kinds)
			// Its log says what was wrong. migration.ttlSecondsAfterFinished tells for how long.
			if diff := cmp.Diff([]string{"Job", "Pod"}, kinds); diff != "" {
				t.Errorf("what is left (-want +got):\n%s", diff)
			}
			p.admin.Delete(t, "/apis/batch/v1/namespaces/"+namespace+"/jobs/broken-fetcher-migrate?propagationPolicy=Background")
			p.gone(t, empty)
			t.Log("no Deployment was made, the uninstall left the failed Job and its pod")
		}},
	}
	for i, step := range steps {
		t.Logf("step %d: %s", i+1, step.name)
		if !t.Run(step.name, step.run) {
			t.FailNow()
		}
	}
}

// specs returns name → specification.
func specs(objects []Object) map[string]any {
	all := map[string]any{}
	for _, o := range objects {
		all[nameOf(o)] = o["spec"]
	}
	return all
}

// gone waits until the namespace holds what it held before.
func (p *place) gone(t *testing.T, before map[string]string) {
	t.Helper()
	eventually(t, "the namespace to be as before", func() error {
		if diff := cmp.Diff(slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(p.everything(t)))); diff != "" {
			return &differs{diff}
		}
		return nil
	})
}

// differs is a difference (-before +after).
type differs struct{ diff string }

func (d *differs) Error() string { return d.diff }
