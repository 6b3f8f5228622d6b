package kube

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// definitions are the custom resources that the chart's optional objects need: module → files.
var definitions = map[string][]string{
	"github.com/kedacore/keda/v2": {
		"config/crd/bases/keda.sh_scaledobjects.yaml", "config/crd/bases/keda.sh_triggerauthentications.yaml",
	},
	"github.com/prometheus-operator/prometheus-operator": {
		"example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
		"example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
		"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
	},
	"sigs.k8s.io/gateway-api": {
		"config/crd/standard/gateway.networking.k8s.io_gateways.yaml",
		"config/crd/standard/gateway.networking.k8s.io_httproutes.yaml",
	},
}

// InstallDefinitions teaches the server the kinds of definitions, from the modules that crds/go.mod pins, and lets
// whoever administers a namespace use them there, as their operators do.
func (c *Cluster) InstallDefinitions(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json")
	cmd.Dir = "crds"
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("download the modules of custom resource definitions: %v: %s%s", err, complaint.Bytes(), out)
	}
	var paths []string
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var module struct {
			Path string `json:"Path"`
			Dir  string `json:"Dir"`
		}
		if err := decoder.Decode(&module); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		for _, file := range definitions[module.Path] {
			paths = append(paths, c.define(t, filepath.Join(module.Dir, file)))
		}
	}
	if want := len(slices.Concat(slices.Collect(maps.Values(definitions))...)); len(paths) != want {
		t.Fatalf("%d of %d definitions were found in the modules: %q", len(paths), want, paths)
	}
	c.Admin.Apply(t, Object{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
		"metadata": Object{"name": "operators", "labels": Object{"rbac.authorization.k8s.io/aggregate-to-admin": "true"}},
		"rules": []Object{{
			"apiGroups": []string{"keda.sh", "monitoring.coreos.com", "gateway.networking.k8s.io"},
			"resources": []string{"*"}, "verbs": []string{"*"},
		}},
	})
	for _, path := range paths {
		eventually(t, path, func() error {
			conditions, _ := dig(c.Admin.Get(t, path), "status", "conditions").([]any)
			for _, condition := range conditions {
				if dig(condition, "type") == "Established" && dig(condition, "status") == "True" {
					return nil
				}
			}
			return fmt.Errorf("conditions are %v", conditions)
		})
	}
	c.Admin.Forget()
}

// define applies one file's definition and returns where it is then.
func (c *Cluster) define(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := Objects(content)
	if err != nil || len(objects) != 1 {
		t.Fatalf("%s has %d objects: %v", file, len(objects), err)
	}
	c.Admin.Apply(t, objects[0])
	return "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + nameOf(objects[0])
}
