package charts

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLint: Helm's own linter finds nothing in the chart with the values of any example.
func TestLint(t *testing.T) {
	t.Parallel()
	h := newHelm(t)
	for _, path := range examples(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			out, problems, err := h.run(t.Context(), "lint", "--strict", "--kube-version", kubeVersion, "--values", path, "fetcher")
			if err != nil {
				t.Errorf("%v\n%s%s", err, out, problems)
			}
		})
	}
}

// TestExamples: every example gives the objects of its golden file, which fit the schemas of Kubernetes.
func TestExamples(t *testing.T) {
	t.Parallel()
	h, check := newHelm(t), newConformity(t)
	for _, path := range examples(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			out := h.render(t, "--values", path)
			check.conforms(t, out)
			golden(t, filepath.Join("testdata", "examples", filepath.Base(path)), out)
		})
	}
}

// TestToggles: every choice gives objects that fit the schemas of Kubernetes, and changes just what its golden file says.
func TestToggles(t *testing.T) {
	t.Parallel()
	h, check := newHelm(t), newConformity(t)
	base := split(h.render(t, required()...))
	golden(t, filepath.Join("testdata", "default.yaml"), strings.Join(base, "---\n"))
	for _, choice := range toggles(t) {
		t.Run(choice.name, func(t *testing.T) {
			t.Parallel()
			out := h.render(t, choice.args()...)
			check.conforms(t, out)
			changes := difference(base, split(out))
			if changes == "" {
				t.Error("it changes nothing")
			}
			golden(t, filepath.Join("testdata", "toggles", choice.name+".yaml"), changes)
		})
	}
}

// difference names the objects that only the base has, and shows what others have that it does not: whole objects, or
// the lines that changed.
func difference(base, now []string) string {
	var b strings.Builder
	before, after := byTitle(base), byTitle(now)
	for _, title := range titles(base) {
		if _, ok := after[title]; !ok {
			b.WriteString("# gone: " + title + "\n")
		}
	}
	for _, title := range titles(now) {
		old, ok := before[title]
		switch {
		case !ok:
			b.WriteString("---\n" + after[title])
		case old != after[title]:
			b.WriteString("---\n# changed: " + title + "\n" + changedLines(old, after[title]))
		}
	}
	return b.String()
}

// titles is what Helm calls each object's template, with the name of the object, in order.
func titles(objects []string) []string {
	var out []string
	for _, text := range objects {
		out = append(out, title(text))
	}
	return out
}

func title(text string) string {
	var kind, name string
	for line := range strings.SplitSeq(text, "\n") {
		if kind == "" && strings.HasPrefix(line, "kind: ") {
			kind = strings.TrimPrefix(line, "kind: ")
		}
		if name == "" && strings.HasPrefix(line, "  name: ") {
			name = strings.TrimPrefix(line, "  name: ")
		}
	}
	return kind + " " + name
}

func byTitle(objects []string) map[string]string {
	out := map[string]string{}
	for _, text := range objects {
		out[title(text)] = text
	}
	return out
}

// changedLines is a plain line difference by the longest common subsequence.
func changedLines(old, now string) string {
	a, b := strings.Split(old, "\n"), strings.Split(now, "\n")
	length := make([][]int, len(a)+1)
	for i := range length {
		length[i] = make([]int, len(b)+1)
	}
	for i, x := range slices.Backward(a) {
		for j, y := range slices.Backward(b) {
			if x == y {
				length[i][j] = length[i+1][j+1] + 1
			} else {
				length[i][j] = max(length[i+1][j], length[i][j+1])
			}
		}
	}
	var out strings.Builder
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && length[i+1][j] >= length[i][j+1]:
			out.WriteString("- " + a[i] + "\n")
			i++
		default:
			out.WriteString("+ " + b[j] + "\n")
			j++
		}
	}
	return out.String()
}

// TestSecretsStayInSecrets: what is given as a secret is in no other object.
func TestSecretsStayInSecrets(t *testing.T) {
	t.Parallel()
	const canary = "canary-4711"
	out := newHelm(t).render(t, "--set", "secrets.DATABASE_URL=postgres://u:"+canary+"@db/x", "--set", "secrets.APP_ENC_KEY="+canary,
		"--set", "secrets.RESULTS_URL=s3://"+canary, "--set", "secrets.EVENTS_WEBHOOK_SECRET="+canary)
	found := 0
	for _, text := range split(out) {
		count := strings.Count(text, canary)
		found += count
		if count > 0 && !strings.Contains(text, "\nkind: Secret\n") {
			t.Errorf("a secret is in %s", title(text))
		}
	}
	if found != 8 {
		t.Errorf("the secrets are there %d times, want 4 in the Secret of the pods and 4 in that of the migration", found)
	}
}

// TestRollsWithConfiguration: pods are replaced when the configuration or a secret of the chart changes, and by nothing else.
func TestRollsWithConfiguration(t *testing.T) {
	t.Parallel()
	h := newHelm(t)
	own := func(set ...string) string {
		args := []string{"--set", "secrets.DATABASE_URL=postgres://db/x", "--set", "secrets.APP_ENC_KEY=a2V5", "--set", "secrets.RESULTS_URL=s3://r"}
		for _, s := range set {
			args = append(args, "--set", s)
		}
		deployments := documents(t, h.render(t, args...))
		manager := deployments["Deployment/gateway-fetcher-manager"].at("spec", "template", "metadata", "annotations")
		return manager.text("checksum/config") + manager.text("checksum/secret")
	}
	base := own()
	for set, rolls := range map[string]bool{
		"config.LOG_LEVEL=debug": true, "secrets.APP_ENC_KEY=b3RoZXI=": true, "shutdown.graceSeconds=31": true,
		"manager.replicas=3": false, "service.port=81": false,
	} {
		if changed := own(set) != base; changed != rolls {
			t.Errorf("%s: pods roll: %v, want %v", set, changed, rolls)
		}
	}
}

// TestRefused: values that can't be meant are refused with a message that says which.
func TestRefused(t *testing.T) {
	t.Parallel()
	h := newHelm(t)
	for name, c := range map[string]struct{ set, parts []string }{
		"no secret":              {[]string{"existingSecret="}, []string{"secrets.DATABASE_URL is required without existingSecret"}},
		"part of the secret":     {[]string{"existingSecret=", "secrets.DATABASE_URL=x", "secrets.APP_ENC_KEY=x"}, []string{"secrets.RESULTS_URL is required"}},
		"two secrets":            {[]string{"secrets.APP_ENC_KEY=x"}, []string{"existingSecret and secrets exclude each other"}},
		"two scalers":            {[]string{"worker.hpa.enabled=true", "worker.keda.enabled=true"}, []string{"worker.hpa.enabled and worker.keda.enabled"}},
		"keda without its URL":   {[]string{"worker.keda.enabled=true", "secretFiles={DATABASE_URL}"}, []string{"worker.keda.enabled", "secretFiles"}},
		"ingress without hosts":  {[]string{"ingress.enabled=true"}, []string{"ingress.hosts"}},
		"route without gateway":  {[]string{"httpRoute.enabled=true"}, []string{"httpRoute.parentRefs"}},
		"unknown at the top":     {[]string{"managr.replicas=1"}, []string{"managr"}},
		"unknown inside":         {[]string{"manager.replica=1"}, []string{"/manager", "replica"}},
		"unknown variable":       {[]string{"config.JOB_TIMEUOT=1h"}, []string{"/config", "JOB_TIMEUOT"}},
		"unknown secret":         {[]string{"secrets.DATABASE_URI=x"}, []string{"/secrets", "DATABASE_URI"}},
		"secret in config":       {[]string{"config.APP_ENC_KEY=x"}, []string{"/config", "APP_ENC_KEY"}},
		"config in secrets":      {[]string{"secrets.LOG_LEVEL=x"}, []string{"/secrets", "LOG_LEVEL"}},
		"the chart's own":        {[]string{"config.SERVER_ADDRESS=:1"}, []string{"/config", "SERVER_ADDRESS"}},
		"no secret to be a file": {[]string{"secretFiles={LOG_LEVEL}"}, []string{"/secretFiles"}},
		"no number":              {[]string{"manager.replicas=many"}, []string{"/manager/replicas"}},
		"label of the chart":     {[]string{`manager.podLabels.app\.kubernetes\.io/name=x`}, []string{"/manager/podLabels/app.kubernetes.io~1name"}},
		"checksum of the chart":  {[]string{"worker.podAnnotations.checksum/config=x"}, []string{"/worker/podAnnotations/checksum~1config"}},
		"common label":           {[]string{`commonLabels.helm\.sh/chart=x`}, []string{"/commonLabels/helm.sh~1chart"}},
		"hpa upside down":        {[]string{"manager.hpa.enabled=true", "manager.hpa.minReplicas=20"}, []string{"manager.hpa.minReplicas must not be above"}},
		"keda upside down":       {[]string{"worker.keda.enabled=true", "worker.keda.minReplicas=21"}, []string{"worker.keda.minReplicas must not be above"}},
		"no digest":              {[]string{"image.digest=latest"}, []string{"/image/digest"}},
		"section without values": {[]string{"manager=null"}, []string{"manager"}},
		"config without values":  {[]string{"config=null"}, []string{"config"}},
		"probe without values":   {[]string{"worker.probes=null"}, []string{"/worker", "probes"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h.refuses(t, toggle{set: c.set}.args(), c.parts...)
		})
	}
}

// TestNotes: the text after an installation warns of a gateway without authentication, and names what was installed.
func TestNotes(t *testing.T) {
	t.Parallel()
	h := newHelm(t)
	// Helm prints notes only for a cluster it reaches, so a copy of the chart has them as an object.
	chart := filepath.Join(t.TempDir(), "fetcher")
	if err := os.CopyFS(chart, os.DirFS("fetcher")); err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{
		"notes.txt":            read(t, "fetcher/templates/NOTES.txt"),
		"templates/notes.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: notes\ndata:\n  text: |\n    {{- tpl (.Files.Get \"notes.txt\") . | nindent 4 }}\n",
	} {
		if err := os.WriteFile(filepath.Join(chart, path), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for set, want := range map[string]struct{ has, lacks string }{
		"config.PLUGIN_AUTH_ENABLED=false": {"WARNING: PLUGIN_AUTH_ENABLED is not set", "tenant create"},
		"config.PLUGIN_AUTH_ENABLED=true":  {"deployment/gateway-fetcher-worker", "WARNING"},
		"config.MULTI_TENANT_ENABLED=true": {"/fetcher tenant create", "published"},
	} {
		args := append([]string{"template", "gateway", chart, "--namespace", "data", "--kube-version", kubeVersion, "--show-only", "templates/notes.yaml", "--set", set}, required()...)
		out, problems, err := h.run(t.Context(), args...)
		if err != nil {
			t.Fatalf("%v\n%s", err, problems)
		}
		notes := documents(t, out)["ConfigMap/notes"].at("data").text("text")
		if !strings.Contains(notes, want.has) || strings.Contains(notes, want.lacks) {
			t.Errorf("%s: notes are\n%s", set, notes)
		}
	}
}
