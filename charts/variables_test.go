package charts

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/config"
)

const schemaPath = "fetcher/values.schema.json"

// owned is the variables that follow from other values, and why they can't be given as variables.
func owned() []string {
	return []string{
		"HEALTH_ADDRESS", "SERVER_ADDRESS", // the ports of the containers
		"READYZ_DRAIN_DELAY_SEC", "SHUTDOWN_GRACE", // shutdown, with which the grace period of the pods grows
		"SERVER_TLS_CERT", "SERVER_TLS_KEY", // tls.secretName, with which the probes change
	}
}

// mandatory is what the service can't start without.
func mandatory() []string { return []string{"APP_ENC_KEY", "DATABASE_URL", "RESULTS_URL"} }

// variables is what the code reads: plain ones and secrets with their meaning, and the endings of a datasource's.
func variables() (plain, secrets map[string]string, endings []string) {
	const name = "NAME"
	plain, secrets = map[string]string{}, map[string]string{}
	for _, v := range (&config.Config{Datasources: []config.Datasource{{Name: name}}}).Variables() {
		ending, datasource := strings.CutPrefix(v.Name, "DATASOURCE_"+name+"_")
		switch {
		case datasource:
			endings = append(endings, ending)
		case v.Secret:
			secrets[v.Name] = v.Description
		default:
			plain[v.Name] = v.Description
		}
	}
	return plain, secrets, endings
}

// TestVariables: the chart has a place for every variable the service reads, and for no other.
func TestVariables(t *testing.T) {
	t.Parallel()
	if *update {
		writeVariables(t)
	}
	plain, secrets, endings := variables()
	schema := readSchema(t)
	of := func(section string) []string {
		return slices.Sorted(maps.Keys(schema.at("properties", section, "properties")))
	}
	want := slices.DeleteFunc(slices.Sorted(maps.Keys(plain)), func(name string) bool { return slices.Contains(owned(), name) })
	if d := cmp.Diff(want, of("config")); d != "" {
		t.Errorf("variables of config (-code +schema):\n%s", d)
	}
	if d := cmp.Diff(slices.Sorted(maps.Keys(secrets)), of("secrets")); d != "" {
		t.Errorf("secrets (-code +schema):\n%s", d)
	}
	rendered := documents(t, newHelm(t).render(t, append(required(), "--set", "tls.secretName=tls")...))["ConfigMap/gateway-fetcher"].at("data")
	for _, name := range owned() {
		if _, ok := plain[name]; !ok || rendered.text(name) == "" {
			t.Errorf("%s: read by the service: %v; set by the chart to %q", name, ok, rendered.text(name))
		}
	}
	for _, ending := range endings {
		for section, secret := range map[string]bool{"config": false, "secrets": true} {
			matches := false
			for pattern := range schema.at("properties", section, "patternProperties") {
				matches = matches || regexp.MustCompile(pattern).MatchString("DATASOURCE_WAREHOUSE_"+ending)
			}
			if isSecret := secretEnding(ending); matches != (isSecret == secret) {
				t.Errorf("DATASOURCE_…_%s in %s: %v", ending, section, matches)
			}
		}
	}
	for _, name := range mandatory() {
		if secrets[name] == "" {
			t.Errorf("%s is no secret of the service", name)
		}
	}
}

// TestMandatory: what the chart demands is all that the service can't start without.
func TestMandatory(t *testing.T) {
	t.Parallel()
	_, err := config.Load(nil, config.RoleManager|config.RoleWorker)
	var problems config.Problems
	if p, ok := err.(config.Problems); ok {
		problems = p
	}
	var names []string
	for _, p := range problems {
		names = append(names, p.Variable)
	}
	slices.Sort(names)
	if d := cmp.Diff(mandatory(), names); d != "" {
		t.Errorf("-chart +service:\n%s", d)
	}
}

func secretEnding(ending string) bool {
	for _, v := range (&config.Config{Datasources: []config.Datasource{{Name: "X"}}}).Variables() {
		if v.Name == "DATASOURCE_X_"+ending {
			return v.Secret
		}
	}
	return false
}

func readSchema(t *testing.T) object {
	t.Helper()
	var schema object
	if err := json.Unmarshal([]byte(read(t, schemaPath)), &schema); err != nil {
		t.Fatal(err)
	}
	return schema
}

// writeVariables writes the parts of the schema that follow from the code between the lines that hold them.
func writeVariables(t *testing.T) {
	t.Helper()
	plain, secrets, endings := variables()
	for _, name := range owned() {
		delete(plain, name)
	}
	var open, closed []string
	for _, ending := range endings {
		if secretEnding(ending) {
			closed = append(closed, ending)
		} else {
			open = append(open, ending)
		}
	}
	value := map[string]any{"type": []string{"string", "number", "boolean"}}
	section := func(names map[string]string, endings []string, value map[string]any) map[string]any {
		properties := map[string]any{}
		for name, meaning := range names {
			property := maps.Clone(value)
			property["description"] = meaning
			properties[name] = property
		}
		return map[string]any{
			"type": "object", "additionalProperties": false, "properties": properties,
			"patternProperties": map[string]any{
				"^DATASOURCE_[A-Z0-9_]+_(" + strings.Join(endings, "|") + ")$": value,
				"^OTEL_[A-Z0-9_]+$": value,
			},
		}
	}
	names := append(slices.Sorted(maps.Keys(secrets)), "")
	text := read(t, schemaPath)
	for name, part := range map[string]any{
		"config":  section(plain, open, value),
		"secrets": section(secrets, closed, map[string]any{"type": "string"}),
		"secretFiles": map[string]any{"type": "array", "uniqueItems": true, "items": map[string]any{
			"type": "string", "pattern": "^(" + strings.Join(names[:len(names)-1], "|") + "|DATASOURCE_[A-Z0-9_]+_(" + strings.Join(closed, "|") + "))$",
		}},
	} {
		content, err := json.Marshal(part)
		if err != nil {
			t.Fatal(err)
		}
		line := regexp.MustCompile(`(?m)^    "` + name + `": \{.*\},$`)
		if !line.MatchString(text) {
			t.Fatalf("%s has no line for %s", schemaPath, name)
		}
		text = line.ReplaceAllLiteralString(text, `    "`+name+`": `+string(content)+",")
	}
	if err := os.WriteFile(schemaPath, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestSchemaIsStrict: wherever the schema lists members, it refuses others, and demands those that templates use.
func TestSchemaIsStrict(t *testing.T) {
	t.Parallel()
	walk(readSchema(t), func(o map[string]any) {
		properties, ok := o["properties"].(map[string]any)
		if ok && o["additionalProperties"] != false {
			t.Errorf("members besides these are not refused: %v", slices.Sorted(maps.Keys(properties)))
		}
	})
}
