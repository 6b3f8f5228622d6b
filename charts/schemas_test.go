package charts

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// kubernetes is the module whose description of the API the schemas are made of.
const kubernetes = "k8s.io/kubernetes@v" + kubeVersion

// definitions of operators' objects, in the modules that define them.
func customResources() map[string][]string {
	return map[string][]string{
		"github.com/prometheus-operator/prometheus-operator@v0.85.0": {
			"example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
			"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
		},
		"github.com/kedacore/keda/v2@v2.21.0": {"config/crd/bases/keda.sh_scaledobjects.yaml"},
		"sigs.k8s.io/gateway-api@v1.6.3":      {"config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"},
	}
}

// conformity checks objects against the schemas of the API, which know no members but their own.
type conformity struct{ kubeconform, schemas string }

func newConformity(t *testing.T) conformity {
	t.Helper()
	dir, err := schemas()
	if err != nil {
		t.Fatal(err)
	}
	return conformity{tool(t, "kubeconform"), dir}
}

func (c conformity) conforms(t *testing.T, rendered string) {
	t.Helper()
	out, err := c.check(t.Context(), rendered)
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func (c conformity) check(ctx context.Context, rendered string) (string, error) {
	cmd := exec.CommandContext(ctx, c.kubeconform, "-strict", "-summary", "-kubernetes-version", kubeVersion,
		"-schema-location", filepath.Join(c.schemas, "{{.Group}}_{{.ResourceAPIVersion}}_{{.ResourceKind}}.json"))
	cmd.Stdin = strings.NewReader(rendered)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestSchemasRefuse: the schemas would find what they are there for.
func TestSchemasRefuse(t *testing.T) {
	t.Parallel()
	check := newConformity(t)
	for name, text := range map[string]string{
		"unknown member":    "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {prots: []}\n",
		"wrong type":        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: two, selector: {}, template: {}}\n",
		"missing member":    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: 2}\n",
		"unknown kind":      "apiVersion: v1\nkind: Servic\nmetadata: {name: a}\n",
		"unknown of keda":   "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: a}\nspec: {scaleTargetRef: {name: a}, triggers: [], max: 1}\n",
		"wrong of the rule": "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata: {name: a}\nspec: {groups: [{rules: []}]}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, err := check.check(t.Context(), text); err == nil {
				t.Errorf("it conforms:\n%s", out)
			}
		})
	}
	good := "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [{port: 80, targetPort: http}]}\n"
	check.conforms(t, good)
}

// makeSchemas returns a directory with a JSON schema of every kind of object. It is made once for what this file says
// and kept in the user's cache; modules are downloaded once and verified by the go command.
func makeSchemas() (string, error) {
	recipe, err := os.ReadFile("schemas_test.go")
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "fetcher", fmt.Sprintf("schemas-%s-%x", kubeVersion, sha256.Sum256(recipe)))
	if _, err = os.Stat(dir); err == nil {
		return dir, nil
	}
	if err = os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", err
	}
	fresh, err := os.MkdirTemp(filepath.Dir(dir), "schemas-new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(fresh)
	if err := writeSchemas(fresh); err != nil {
		return "", err
	}
	if err := os.Rename(fresh, dir); err != nil && !errors.Is(err, fs.ErrExist) { // another run was faster
		return "", err
	}
	return dir, nil
}

func writeSchemas(dir string) error {
	if err := kubernetesSchemas(dir); err != nil {
		return fmt.Errorf("schemas of Kubernetes: %w", err)
	}
	for module, paths := range customResources() {
		root, err := download(module)
		if err != nil {
			return err
		}
		for _, path := range paths {
			if err := customSchemas(dir, filepath.Join(root, path)); err != nil {
				return fmt.Errorf("schema of %s: %w", path, err)
			}
		}
	}
	return nil
}

func download(module string) (string, error) {
	out, err := exec.CommandContext(context.Background(), "go", "mod", "download", "-json", module).Output()
	if err != nil {
		return "", fmt.Errorf("downloading %s: %w\n%s", module, err, out)
	}
	var got struct {
		Dir string `json:"Dir"`
	}
	if err := json.Unmarshal(out, &got); err != nil {
		return "", fmt.Errorf("downloading %s: %w", module, err)
	}
	return got.Dir, nil
}

// kubernetesSchemas makes one self-contained schema of every kind that the API's OpenAPI description knows.
func kubernetesSchemas(dir string) error {
	root, err := download(kubernetes)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(filepath.Join(root, "api", "openapi-spec", "swagger.json")) // #nosec G304
	if err != nil {
		return err
	}
	var api struct {
		Definitions map[string]map[string]any `json:"definitions"`
	}
	if err := json.Unmarshal(content, &api); err != nil {
		return err
	}
	for _, definition := range api.Definitions {
		strict(definition)
	}
	// Numbers are quantities too, which the description leaves out.
	api.Definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"] = map[string]any{"type": []any{"string", "number"}}
	for name, definition := range api.Definitions {
		kinds, _ := definition["x-kubernetes-group-version-kind"].([]any)
		for _, kind := range kinds {
			k := object(kind.(map[string]any))
			needed := map[string]any{}
			collect(api.Definitions, name, needed)
			schema := map[string]any{"$ref": "#/definitions/" + name, "definitions": needed}
			if err := writeSchema(dir, k.text("group"), k.text("version"), k.text("kind"), schema); err != nil {
				return err
			}
		}
	}
	return nil
}

// collect adds a definition and all that it refers to.
func collect(all map[string]map[string]any, name string, into map[string]any) {
	if into[name] != nil {
		return
	}
	into[name] = all[name]
	walk(all[name], func(o map[string]any) {
		if ref, ok := o["$ref"].(string); ok {
			collect(all, strings.TrimPrefix(ref, "#/definitions/"), into)
		}
	})
}

// customSchemas makes a schema of every version of a CustomResourceDefinition.
func customSchemas(dir, path string) error {
	content, err := os.ReadFile(path) // #nosec G304
	if err != nil {
		return err
	}
	var crd object
	if err := yaml.Unmarshal(content, &crd); err != nil {
		return err
	}
	spec := crd.at("spec")
	for _, version := range spec.list("versions") {
		schema := version.at("schema", "openAPIV3Schema")
		strict(schema)
		schema.at("properties")["metadata"] = map[string]any{"type": "object"}
		if err := writeSchema(dir, spec.text("group"), version.text("name"), spec.at("names").text("kind"), schema); err != nil {
			return err
		}
	}
	return nil
}

// writeSchema names the file as kubeconform looks for it, to whom the group of the core is its version.
func writeSchema(dir, group, version, kind string, schema map[string]any) error {
	if group == "" {
		group = version
	}
	content, err := json.Marshal(schema)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s_%s_%s.json", group, version, strings.ToLower(kind))), content, 0o600)
}

// strict refuses unknown members wherever members are listed, and lets numbers stand where Kubernetes takes both.
func strict(schema map[string]any) {
	walk(schema, func(o map[string]any) {
		if o["format"] == "int-or-string" || o["x-kubernetes-int-or-string"] == true {
			delete(o, "format")
			delete(o, "anyOf")
			o["type"] = []any{"string", "integer"}
		}
		_, open := o["additionalProperties"]
		if _, ok := o["properties"].(map[string]any); ok && !open && o["x-kubernetes-preserve-unknown-fields"] != true {
			o["additionalProperties"] = false
		}
		delete(o, "format") // int32, byte and others that are not JSON Schema's
	})
}

// walk visits every schema below one, itself included; names of members are not taken for keywords.
func walk(schema map[string]any, visit func(map[string]any)) {
	if schema == nil {
		return
	}
	visit(schema)
	for _, name := range slices.Sorted(maps.Keys(schema)) {
		switch value := schema[name].(type) {
		case map[string]any:
			if name == "properties" || name == "definitions" {
				for _, member := range value {
					if m, ok := member.(map[string]any); ok {
						walk(m, visit)
					}
				}
			} else {
				walk(value, visit)
			}
		case []any:
			for _, item := range value {
				if m, ok := item.(map[string]any); ok {
					walk(m, visit)
				}
			}
		}
	}
}
