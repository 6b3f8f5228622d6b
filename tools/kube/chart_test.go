package kube

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// life is what a release goes through.
type life struct {
	*place

	values string            // the file of values
	empty  map[string]string // what the namespace holds without a release
	pods   map[string]string // those of the release that are to be there
}

func (l *life) arguments(command string, more ...string) []string {
	return slices.Concat([]string{command, "fetcher", chart, "--values", l.values, "--wait", "--timeout", "5m"}, more)
}

func (l *life) upgrade(more ...string) []string { return l.arguments("upgrade", more...) }

// TestChart takes the chart through the life of a release on a real API server, one step after the other.
func TestChart(t *testing.T) {
	l := &life{place: newPlace(t), values: values(t, Object{"existingSecret": secret})}
	l.empty = l.everything(t)
	steps := []struct {
		name string
		run  func(t *testing.T)
	}{
		{"pods that are not restricted are refused", l.refuses},
		{"every example and toggle is accepted", l.accepts},
		{"install", l.install},
		{"upgrade without a change", l.same},
		{"upgrade with a changed variable", l.changed},
		{"upgrade with a value that is not known", l.unknown},
		{"upgrade whose migration fails", l.failed},
		{"upgrade after the failed one", l.mended},
		{"test", l.tested},
		{"rollback", l.rollback},
		{"uninstall", l.uninstall},
		{"install with everything on", l.fullInstall},
		{"install whose migration fails", l.stillborn},
	}
	for i, step := range steps {
		t.Logf("step %d: %s", i+1, step.name)
		if !t.Run(step.name, step.run) {
			t.FailNow()
		}
	}
}

// refuses shows the server a pod that the namespace must not admit.
func (l *life) refuses(t *testing.T) {
	err := l.admin.Check(t, Object{
		"apiVersion": "v1", "kind": "Pod", "metadata": Object{"name": "careless"},
		"spec": Object{"containers": []Object{{"name": "careless", "image": "careless"}}},
	}, namespace)
	if err == nil || !strings.Contains(err.Error(), "violates PodSecurity") {
		t.Errorf("the server said %v of a pod without a security context", err)
	}
}

// install installs: the migration comes first, then every pod is admitted and reached.
func (l *life) install(t *testing.T) {
	since := l.now(t)
	l.helm.Must(t, l.arguments("install")...)
	l.pods = l.running(t, "fetcher")
	if diff := cmp.Diff([]string{"manager", "worker"}, components(l.pods)); diff != "" {
		t.Errorf("components that run (-want +got):\n%s", diff)
	}
	if refused := l.refusals(t); len(refused) > 0 {
		t.Errorf("pods were refused: %q", refused)
	}
	at, outcome := l.migrated(t, since)
	if deployed := l.touched(t, since); outcome != "Complete" || deployed < at {
		t.Errorf("the migration ended as %s at %d, the first Deployment is of %d", outcome, at, deployed)
	}
	l.reached(t, "fetcher")
	t.Logf("%d pods run, made after the migration had completed; the Service leads to the managers, the disruption budgets count each component", len(l.pods))
}

// same upgrades to what is there: no pod is replaced.
func (l *life) same(t *testing.T) {
	l.helm.Must(t, l.upgrade()...)
	if after := l.running(t, "fetcher"); kept(l.pods, after) != len(l.pods) {
		t.Errorf("%d of %d pods stayed", kept(l.pods, after), len(l.pods))
	}
	t.Log("every pod stayed")
}

// changed upgrades with another configuration: every pod is replaced, after the migration.
func (l *life) changed(t *testing.T) {
	since := l.now(t)
	l.helm.Must(t, l.upgrade("--set", "config.LOG_LEVEL=debug")...)
	after := l.running(t, "fetcher")
	if len(after) != len(l.pods) || kept(l.pods, after) != 0 {
		t.Errorf("%d pods after %d, of which %d stayed", len(after), len(l.pods), kept(l.pods, after))
	}
	at, outcome := l.migrated(t, since)
	if changed := l.touched(t, since); outcome != "Complete" || changed < at {
		t.Errorf("the migration ended as %s at %d, the first Deployment changed at %d", outcome, at, changed)
	}
	l.pods = after
	t.Log("every pod was replaced, after the migration")
}

// unknown upgrades with a value that the chart does not have: nothing changes.
func (l *life) unknown(t *testing.T) {
	before, revisions := l.everything(t), l.helm.Revisions(t, "fetcher")
	_, err := l.helm.Run(t, l.upgrade("--set", "replicaz=3")...)
	if err == nil || !strings.Contains(err.Error(), "replicaz") {
		t.Fatalf("helm said %v", err)
	}
	if diff := cmp.Diff(before, l.everything(t)); diff != "" {
		t.Errorf("the namespace changed:\n%s", diff)
	}
	if diff := cmp.Diff(revisions, l.helm.Revisions(t, "fetcher")); diff != "" {
		t.Errorf("the release changed:\n%s", diff)
	}
	t.Log("refused by the schema, nothing changed")
}

// failed upgrades to an image that can't migrate: what ran keeps running.
func (l *life) failed(t *testing.T) {
	since, before := l.now(t), l.deployments(t, "fetcher")
	_, err := l.helm.Run(t, l.upgrade("--set", "config.LOG_LEVEL=debug,image.tag=fails,migration.backoffLimit=0")...)
	if err == nil || !strings.Contains(err.Error(), "pre-upgrade hooks failed") {
		t.Fatalf("helm said %v", err)
	}
	if _, outcome := l.migrated(t, since); outcome != "Failed" {
		t.Errorf("the migration ended as %s", outcome)
	}
	revisions := l.helm.Revisions(t, "fetcher")
	if diff := cmp.Diff([]string{"deployed", "failed"}, revisions[len(revisions)-2:]); diff != "" {
		t.Errorf("the last revisions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(specs(before), specs(l.deployments(t, "fetcher"))); diff != "" {
		t.Errorf("the Deployments changed:\n%s", diff)
	}
	if after := l.running(t, "fetcher"); kept(l.pods, after) != len(l.pods) {
		t.Errorf("%d of %d pods stayed", kept(l.pods, after), len(l.pods))
	}
	t.Log("the release failed, every pod of the former revision stayed")
}

// mended upgrades after a failure, back to what runs.
func (l *life) mended(t *testing.T) {
	l.helm.Must(t, l.upgrade("--set", "config.LOG_LEVEL=debug")...)
	if after := l.running(t, "fetcher"); kept(l.pods, after) != len(l.pods) {
		t.Errorf("%d of %d pods stayed", kept(l.pods, after), len(l.pods))
	}
	t.Log("the release is well again; it is what runs already")
}

// tested runs the release's own test.
func (l *life) tested(t *testing.T) {
	out := l.helm.Must(t, "test", "fetcher", "--timeout", "5m")
	if !strings.Contains(out, "Phase:          Succeeded") {
		t.Errorf("helm printed %s", out)
	}
	t.Log("the release's own test succeeded")
}

// rollback goes back to the first revision.
func (l *life) rollback(t *testing.T) {
	before := l.running(t, "fetcher")
	l.helm.Must(t, "rollback", "fetcher", "1", "--wait", "--timeout", "5m")
	after := l.running(t, "fetcher")
	if len(after) != len(before) || kept(before, after) != 0 {
		t.Errorf("%d pods after %d, of which %d stayed", len(after), len(before), kept(before, after))
	}
	for id, content := range l.everything(t) {
		if strings.HasPrefix(id, "ConfigMap/") && strings.Contains(content, "debug") {
			t.Errorf("%s is not as it was: %s", id, content)
		}
	}
	t.Log("back to the first revision, every pod was replaced")
}

// uninstall removes the release: the namespace is as it was.
func (l *life) uninstall(t *testing.T) {
	l.helm.Must(t, "uninstall", "fetcher", "--wait", "--timeout", "5m")
	l.gone(t, l.empty)
	t.Log("nothing is left")
}

// stillborn installs an image that can't migrate: no Deployment is made, and the failed Job stays for its log.
func (l *life) stillborn(t *testing.T) {
	_, err := l.helm.Run(t, "install", "broken", chart, "--values", l.values, "--timeout", "5m",
		"--set", "image.tag=fails,migration.backoffLimit=0")
	if err == nil || !strings.Contains(err.Error(), "failed pre-install") {
		t.Fatalf("helm said %v", err)
	}
	if made := l.deployments(t, "broken"); len(made) != 0 {
		t.Errorf("Deployments were made: %v", specs(made))
	}
	l.helm.Must(t, "uninstall", "broken", "--wait", "--timeout", "5m")
	var kinds []string
	for id := range l.everything(t) {
		if _, ok := l.empty[id]; !ok {
			kind, _, _ := strings.Cut(id, "/")
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	// Its log says what was wrong. migration.ttlSecondsAfterFinished tells for how long.
	if diff := cmp.Diff([]string{"Job", "Pod"}, kinds); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
	l.admin.Delete(t, "/apis/batch/v1/namespaces/"+namespace+"/jobs/broken-fetcher-migrate?propagationPolicy=Background")
	l.gone(t, l.empty)
	t.Log("no Deployment was made, the uninstall left the failed Job and its pod")
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
