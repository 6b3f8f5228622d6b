// Package charts checks the Helm chart against the code it installs.
package charts

import (
	"os"
	"regexp"
	"testing"

	"github.com/fetcherhq/fetcher/config"
)

// TestVariablesExist: every environment variable that the chart names is one the service reads, and every one the
// service can't start without is demanded.
func TestVariablesExist(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, v := range new(config.Config).Variables() {
		known[v.Name] = true
	}
	name := regexp.MustCompile(`\b[A-Z]+(_[A-Z]+)+\b`)
	named := map[string]bool{}
	for _, path := range []string{"fetcher/values.yaml", "fetcher/templates/config.yaml"} {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range name.FindAllString(string(content), -1) {
			named[v] = true
			if !known[v] {
				t.Errorf("%s names %s, which the service does not read", path, v)
			}
		}
	}
	for _, required := range []string{"DATABASE_URL", "APP_ENC_KEY", "RESULTS_URL"} {
		if !named[required] {
			t.Errorf("the chart does not demand %s", required)
		}
	}
}
