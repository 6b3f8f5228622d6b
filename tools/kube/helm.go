package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// Helm runs the helm program as one user of the cluster, in one namespace.
type Helm struct {
	program    string
	kubeconfig string
	namespace  string
	home       string
}

// Helm returns a runner for the user of kubeconfig.
func (c *Cluster) Helm(kubeconfig, namespace string) *Helm {
	return &Helm{program: filepath.Join(c.bin, "helm"), kubeconfig: kubeconfig, namespace: namespace, home: c.dir}
}

// Run returns what helm printed; the error has what it complained about.
func (h *Helm) Run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), h.program, args...)
	cmd.Env = []string{
		"HOME=" + h.home, "PATH=" + os.Getenv("PATH"), "KUBECONFIG=" + h.kubeconfig, "HELM_NAMESPACE=" + h.namespace,
	}
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("helm %s: %w: %s", strings.Join(args, " "), err, complaint.String())
	}
	return out.String(), nil
}

// Must is Run for what has to work.
func (h *Helm) Must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := h.Run(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Revisions returns the statuses of a release's revisions, the oldest first.
func (h *Helm) Revisions(t *testing.T, release string) []string {
	t.Helper()
	var revisions []struct {
		Status string `json:"status"`
	}
	if err := json.Unmarshal([]byte(h.Must(t, "history", release, "--output", "json")), &revisions); err != nil {
		t.Fatal(err)
	}
	statuses := make([]string, len(revisions))
	for i, r := range revisions {
		statuses[i] = r.Status
	}
	return statuses
}

// Objects parses a stream of YAML documents, without the empty ones.
func Objects(stream []byte) ([]Object, error) {
	var objects []Object
	for i, document := range bytes.Split(append([]byte("\n"), stream...), []byte("\n---")) {
		var object Object
		if err := yaml.Unmarshal(document, &object); err != nil {
			return nil, fmt.Errorf("document %d: %w", i, err)
		}
		if len(object) > 0 {
			objects = append(objects, object)
		}
	}
	return objects, nil
}
