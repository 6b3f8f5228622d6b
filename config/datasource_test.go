package config_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/config"
)

// ledger is a whole definition; overrides come after it and win.
func ledger(overrides ...string) []string {
	return sound(append([]string{
		"DATASOURCE_LEDGER_CONFIG_NAME=platform_ledger", "DATASOURCE_LEDGER_TYPE=POSTGRESQL", "DATASOURCE_LEDGER_HOST=10.0.0.7",
		"DATASOURCE_LEDGER_PORT=5432", "DATASOURCE_LEDGER_DATABASE=ledger", "DATASOURCE_LEDGER_USER=reader",
		"DATASOURCE_LEDGER_PASSWORD=" + canary,
	}, overrides...)...)
}

func TestDatasources(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load(ledger(
		"DATASOURCE_LEDGER_OPTIONS=schema=main&serviceName=a%26b", "DATASOURCE_LEDGER_TENANTS= acme, globex,,",
		"DATASOURCE_a_HOST_b_CONFIG_NAME=other-one", "DATASOURCE_a_HOST_b_TYPE=MYSQL", "DATASOURCE_a_HOST_b_HOST=db.internal",
		"DATASOURCE_a_HOST_b_PORT=3306", "DATASOURCE_a_HOST_b_DATABASE=x", "DATASOURCE_a_HOST_b_USER=u",
		"DATASOURCE_a_HOST_b_PASSWORD=p", "DATASOURCE_a_HOST_b_SSLMODE=true", "DATASOURCE_a_HOST_b_SSL_CA=ca",
		"DATASOURCE_a_HOST_b_SSL_CERT=cert", "DATASOURCE_a_HOST_b_SSL_KEY=key",
		"DATASOURCE_EMPTY_HOST=", "DATASOURCE_URL=of-another-program", "DATASOURCE_HOST=too",
	), every)
	if err != nil {
		t.Fatal(err)
	}
	want := []config.Datasource{
		{
			Name: "LEDGER", ConfigName: "platform_ledger", Type: "POSTGRESQL", Host: "10.0.0.7", Port: 5432, Database: "ledger",
			User: "reader", Password: config.NewSecret(canary), Options: config.Options{"schema": config.NewSecret("main"), "serviceName": config.NewSecret("a&b")},
			Tenants: config.List{"acme", "globex"},
		},
		{
			Name: "a_HOST_b", ConfigName: "other-one", Type: "MYSQL", Host: "db.internal", Port: 3306, Database: "x", User: "u",
			Password: config.NewSecret("p"), SSLMode: "true", SSLCA: config.NewSecret("ca"), SSLCert: config.NewSecret("cert"),
			SSLKey: config.NewSecret("key"),
		},
	}
	if diff := cmp.Diff(want, cfg.Datasources); diff != "" {
		t.Error(diff)
	}
}

func TestDatasourceFaults(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ set, variable, message string }{
		{"CONFIG_NAME=", "CONFIG_NAME", "is required"},
		{"TYPE=", "TYPE", "is required"},
		{"HOST=", "HOST", "is required"},
		{"PORT=", "PORT", "is required"},
		{"PORT=0", "PORT", "is required"},
		{"PORT=" + canary, "PORT", "must be a whole number"},
		{"PORT=-1", "PORT", "must be 1 to 65535"},
		{"PORT=65536", "PORT", "must be 1 to 65535"},
		{"DATABASE=", "DATABASE", "is required"},
		{"USER=", "USER", "is required"},
		{"PASSWORD=", "PASSWORD", "is required"},
		{"PASSWORD_FILE=/no/such/" + canary, "PASSWORD", "is set twice: give DATASOURCE_LEDGER_PASSWORD or DATASOURCE_LEDGER_PASSWORD_FILE"},
		{"SSL_KEY_FILE=/no/such/" + canary, "SSL_KEY", "the file that DATASOURCE_LEDGER_SSL_KEY_FILE names can't be read"},
		{"OPTIONS=" + canary, "OPTIONS", "must be of the form k=v&k=v, each k once"},
		{"OPTIONS=a=" + canary + "&a=2", "OPTIONS", "must be of the form k=v&k=v, each k once"},
		{"OPTIONS=a=%zz" + canary, "OPTIONS", "must be of the form k=v&k=v, each k once"},
		{"SSL_MODE=" + canary, "SSL_MODE", "is not a variable of a datasource"},
	} {
		t.Run(tc.set, func(t *testing.T) {
			t.Parallel()
			_, err := config.Load(ledger("DATASOURCE_LEDGER_"+tc.set), every)
			var got config.Problems
			errors.As(err, &got)
			if diff := cmp.Diff(config.Problems{{Variable: "DATASOURCE_LEDGER_" + tc.variable, Message: tc.message}}, got); diff != "" {
				t.Error(diff)
			}
			if strings.Contains(fmt.Sprint(err), canary) {
				t.Errorf("the value shows in %q", err)
			}
		})
	}
}

func TestDatasourceFaultsJoinTheOthers(t *testing.T) {
	t.Parallel()
	judged := 0
	rule := func(cfg *config.Config) config.Problems {
		judged = len(cfg.Datasources)
		return config.Problems{{Variable: "DATASOURCE_B_TYPE", Message: "of the rule"}, {Variable: "DATASOURCE_B_PORT", Message: "reported already"}}
	}
	_, err := config.Load(ledger(
		"LOG_LEVEL=loud", "DATASOURCE_B_CONFIG_NAME=platform_ledger", "DATASOURCE_B_TYPE=POSTGRESQL", "DATASOURCE_B_PORT=x",
		"DATASOURCE_B_TYP=y", "TENANT_RATE_LIMIT=-1",
	), every, rule)
	want := strings.Join([]string{
		"the configuration is not valid:",
		"  TENANT_RATE_LIMIT: must be 0 or a positive number",
		"  LOG_LEVEL: must be debug, info, warn or error",
		"  DATASOURCE_B_TYPE: of the rule",
		"  DATASOURCE_B_HOST: is required",
		"  DATASOURCE_B_PORT: must be a whole number",
		"  DATASOURCE_B_DATABASE: is required",
		"  DATASOURCE_B_USER: is required",
		"  DATASOURCE_B_PASSWORD: is required",
		"  DATASOURCE_LEDGER_CONFIG_NAME: is the name of another datasource too",
		"  DATASOURCE_B_TYP: is not a variable of a datasource",
	}, "\n")
	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" || judged != 2 {
		t.Errorf("judged %d; %s", judged, diff)
	}
	if _, err = config.Load(ledger("DATASOURCE_LEDGER_HOST="), config.RoleKeys); err != nil {
		t.Errorf("a role that reads no datasource: %v", err)
	}
}

func TestDatasourceSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{"password": canary + "1\n", "key": canary + "2\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := config.Load(ledger(
		"DATASOURCE_LEDGER_PASSWORD=", "DATASOURCE_LEDGER_PASSWORD_FILE="+filepath.Join(dir, "password"),
		"DATASOURCE_LEDGER_SSL_KEY_FILE="+filepath.Join(dir, "key"), "DATASOURCE_LEDGER_OPTIONS=k="+canary,
	), every)
	if err != nil {
		t.Fatal(err)
	}
	d := cfg.Datasources[0]
	if d.Password.Reveal() != canary+"1" || d.SSLKey.Reveal() != canary+"2" {
		t.Errorf("got %q and %q", d.Password.Reveal(), d.SSLKey.Reveal())
	}
	shown := map[string]string{}
	for _, v := range cfg.Variables() {
		if strings.HasPrefix(v.Name, "DATASOURCE_") {
			shown[strings.TrimPrefix(v.Name, "DATASOURCE_LEDGER_")] = v.Value
		}
	}
	want := map[string]string{
		"CONFIG_NAME": "platform_ledger", "TYPE": "POSTGRESQL", "HOST": "10.0.0.7", "PORT": "5432", "DATABASE": "ledger", "USER": "reader",
		"PASSWORD": "******", "SSLMODE": "", "SSL_CA": "", "SSL_CERT": "", "SSL_KEY": "******", "OPTIONS": "k=******", "TENANTS": "",
	}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Error(diff)
	}
	if text := fmt.Sprintf("%v %+v", *cfg, cfg.Datasources); strings.Contains(text, canary) {
		t.Errorf("a secret shows in %s", text)
	}
}

func TestDatasourcesAreDocumented(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := config.WriteMarkdown(&out); err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		"| `DATASOURCE_{NAME}_CONFIG_NAME` |  |", "| `DATASOURCE_{NAME}_TENANTS` |  |", "may come from `DATASOURCE_{NAME}_PASSWORD_FILE`",
		"may come from `DATASOURCE_{NAME}_SSL_KEY_FILE`", "| `CORS_ALLOWED_ORIGINS` |  |", "| `TENANT_RATE_LIMIT` | `0` |",
	} {
		if !strings.Contains(out.String(), row) {
			t.Errorf("%q is not in the table", row)
		}
	}
}

func TestOriginsAndRate(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load(sound("CORS_ALLOWED_ORIGINS=https://app.example.com, http://localhost:3000,http://[::1]:8080", "TENANT_RATE_LIMIT=2.5"), every)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(config.Origins{"https://app.example.com", "http://localhost:3000", "http://[::1]:8080"}, cfg.Server.CORSOrigins); diff != "" {
		t.Error(diff)
	}
	if cfg.Tenants.RateLimit != 2.5 {
		t.Errorf("rate %v", cfg.Tenants.RateLimit)
	}
	for set, want := range map[string]string{
		"TENANT_RATE_LIMIT=many": "must be a number", "TENANT_RATE_LIMIT=NaN": "must be 0 or a positive number",
		"TENANT_RATE_LIMIT=Inf": "must be 0 or a positive number",
	} {
		if _, err := config.Load(sound(set), every); !strings.Contains(fmt.Sprint(err), "TENANT_RATE_LIMIT: "+want) {
			t.Errorf("%s: %v", set, err)
		}
	}
	for _, origin := range []string{
		"*", "null", "app.example.com", "https://*.example.com", "https://app.example.com/", "https://App.example.com",
		"https://app.example.com:443", "http://app.example.com:80", "https://app.example.com:", "https://u@app.example.com",
		"ftp://app.example.com", "https://app.example.com?x", "https://",
	} {
		_, err := config.Load(sound("CORS_ALLOWED_ORIGINS=https://good.example,"+origin), every)
		want := "the configuration is not valid:\n  CORS_ALLOWED_ORIGINS: must be exact origins such as https://app.example.com, comma separated"
		if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
			t.Errorf("%s: %s", origin, diff)
		}
	}
}
