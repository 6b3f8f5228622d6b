package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/config"
)

const (
	dsCanary  = "canary-s3cret"
	dsService = config.RoleManager | config.RoleWorker
)

// datasourceEnv is an environment with one internal datasource; overrides come after it and win.
func datasourceEnv(overrides ...string) []string {
	return append([]string{
		"DATABASE_URL=postgres://u@db/fetcher", "RESULTS_URL=file:///results",
		"APP_ENC_KEY=" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32)),
		"DATASOURCE_LEDGER_CONFIG_NAME=platform_ledger", "DATASOURCE_LEDGER_TYPE=POSTGRESQL", "DATASOURCE_LEDGER_HOST=127.0.0.1",
		"DATASOURCE_LEDGER_PORT=5432", "DATASOURCE_LEDGER_DATABASE=ledger", "DATASOURCE_LEDGER_USER=reader",
		"DATASOURCE_LEDGER_PASSWORD=" + dsCanary,
	}, overrides...)
}

func TestBrokenDatasourceNamesItsVariable(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ set, variable, message string }{
		{"CONFIG_NAME=a b " + dsCanary, "CONFIG_NAME", "must be 3 to 100 characters of A-Z, a-z, 0-9, _ and -"},
		{"TYPE=" + dsCanary, "TYPE", "must be one of POSTGRESQL, MYSQL, ORACLE, SQL_SERVER, MONGODB"},
		{"HOST=http://" + dsCanary, "HOST", "must be a host name or an IP address"},
		{"DATABASE=" + strings.Repeat(dsCanary, 20), "DATABASE", "must be 1 to 255 characters"},
		{"USER=" + strings.Repeat(dsCanary, 20), "USER", "must be 1 to 255 characters"},
		{"PASSWORD=" + strings.Repeat(dsCanary, 80), "PASSWORD", "must be 1 to 1024 characters"},
		{"SSLMODE=" + dsCanary, "SSLMODE", "is not a mode of this type"},
		{"SSL_CA=" + dsCanary, "SSLMODE", "is required"},
		{"SSL_KEY=" + dsCanary, "SSLMODE", "is required"},
		{"OPTIONS=what=" + dsCanary, "OPTIONS", "must be of schema"},
		{"TENANTS=acme,../" + dsCanary, "TENANTS", "must be ids of tenants, comma separated, or *"},
	} {
		t.Run(tc.set[:min(len(tc.set), 30)], func(t *testing.T) {
			t.Parallel()
			_, err := config.Load(datasourceEnv("DATASOURCE_LEDGER_"+tc.set), dsService, serviceRules(dsService)...)
			got := fmt.Sprint(err)
			if want := "\n  DATASOURCE_LEDGER_" + tc.variable + ": " + tc.message; !strings.Contains(got, want) {
				t.Errorf("%q is not in %q", want, got)
			}
			if strings.Contains(got, dsCanary) {
				t.Errorf("the value shows in %q", got)
			}
		})
	}
	_, err := config.Load(datasourceEnv("REQUIRE_SOURCE_TLS=true", "DATASOURCE_LEDGER_PORT=0", "DATASOURCE_LEDGER_TYPE=x", "LOG_LEVEL=x"),
		dsService, serviceRules(dsService)...)
	want := strings.Join([]string{
		"the configuration is not valid:",
		"  LOG_LEVEL: must be debug, info, warn or error",
		"  DATASOURCE_LEDGER_TYPE: must be one of POSTGRESQL, MYSQL, ORACLE, SQL_SERVER, MONGODB",
		"  DATASOURCE_LEDGER_PORT: is required",
		"  DATASOURCE_LEDGER_SSLMODE: is required",
	}, "\n")
	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
		t.Error(diff)
	}
}

func TestWhoMayReadADatasource(t *testing.T) {
	t.Parallel()
	const org = "0190F0E0-0000-7000-8000-00000000000A"
	multi := []string{"MULTI_TENANT_ENABLED=true", "PLUGIN_AUTH_ENABLED=true", "PLUGIN_AUTH_ADDRESS=https://id"}
	for name, tc := range map[string]struct {
		env      []string
		everyone bool
		tenants  []string
	}{
		"single tenant":           {nil, true, nil},
		"single, with a list":     {[]string{"DATASOURCE_LEDGER_TENANTS=acme"}, true, []string{"acme"}},
		"multi, default":          {multi, false, nil},
		"multi, all":              {append(multi, "DATASOURCE_LEDGER_TENANTS=*"), true, nil},
		"multi, list":             {append(multi, "DATASOURCE_LEDGER_TENANTS=acme, "+org), false, []string{"acme", strings.ToLower(org)}},
		"multi, all among others": {append(multi, "DATASOURCE_LEDGER_TENANTS=acme,*"), true, []string{"acme"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := config.Load(datasourceEnv(tc.env...), dsService, serviceRules(dsService)...)
			if err != nil {
				t.Fatal(err)
			}
			d, valid := define(&cfg.Datasources[0], cfg.Tenants.Multi)
			if !valid || d.Everyone != tc.everyone {
				t.Errorf("valid %t, everyone %t", valid, d.Everyone)
			}
			if diff := cmp.Diff(tc.tenants, d.Tenants); diff != "" {
				t.Error(diff)
			}
			made, err := internals(cfg)
			if err != nil || !made.Reserved("platform_ledger") || made.Reserved("platform") {
				t.Errorf("reserved names are wrong, %v", err)
			}
		})
	}
}

// TestConfigCheckShowsDatasources owns the process's environment.
func TestConfigCheckShowsDatasources(t *testing.T) {
	for _, assignment := range datasourceEnv("DATASOURCE_LEDGER_OPTIONS=schema=" + dsCanary) {
		name, value, _ := strings.Cut(assignment, "=")
		t.Setenv(name, value)
	}
	var out bytes.Buffer
	cmd := newConfig()
	cmd.SetArgs([]string{"check"})
	cmd.SetOut(&out)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for line := range strings.Lines(out.String()) {
		if fields := strings.Fields(line); strings.HasPrefix(line, "DATASOURCE_") && len(fields) == 2 {
			got[fields[0]] = fields[1]
		}
	}
	want := map[string]string{
		"DATASOURCE_LEDGER_CONFIG_NAME": "platform_ledger", "DATASOURCE_LEDGER_TYPE": "POSTGRESQL", "DATASOURCE_LEDGER_HOST": "127.0.0.1",
		"DATASOURCE_LEDGER_PORT": "5432", "DATASOURCE_LEDGER_DATABASE": "ledger", "DATASOURCE_LEDGER_USER": "reader",
		"DATASOURCE_LEDGER_PASSWORD": "******", "DATASOURCE_LEDGER_OPTIONS": "schema=******",
	}
	if diff := cmp.Diff(want, got); diff != "" || strings.Contains(out.String(), dsCanary) {
		t.Error(diff, out.String())
	}
}
