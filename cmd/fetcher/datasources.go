package main

import (
	"fmt"
	"slices"

	"github.com/fetcherhq/fetcher/config"
	"github.com/fetcherhq/fetcher/connections"
	"github.com/fetcherhq/fetcher/tenantid"
)

const everyTenant = "*"

// serviceRules are what packages that config does not know demand of a configuration for the role.
func serviceRules(role config.Role) []config.Rule {
	if role&(config.RoleManager|config.RoleWorker) == 0 {
		return []config.Rule{checkAllowedHosts}
	}
	return []config.Rule{checkAllowedHosts, checkDatasources}
}

// checkAllowedHosts holds the list to the rules of package dial, which are stricter about names than config is.
func checkAllowedHosts(cfg *config.Config) config.Problems {
	if _, err := newGuard(cfg); err != nil {
		return config.Problems{{Variable: "ALLOW_PRIVATE_HOSTS", Message: "must be CIDRs, addresses, names or .suffixes, comma separated"}}
	}
	return nil
}

// checkDatasources holds the definitions of internal datasources to the rules of connections, and names the variables
// that break them.
func checkDatasources(cfg *config.Config) config.Problems {
	var problems config.Problems
	for i := range cfg.Datasources {
		d := &cfg.Datasources[i]
		definition, valid := define(d, cfg.Tenants.Multi)
		for _, f := range definition.Check(cfg.Sources.RequireTLS) {
			problems = append(problems, config.Problem{Variable: d.Variable(datasourceSuffix(f.Location)), Message: f.Message})
		}
		if !valid {
			problems = append(problems, config.Problem{
				Variable: d.Variable("TENANTS"), Message: "must be ids of tenants, comma separated, or *",
			})
		}
	}
	return problems
}

// datasourceSuffix is the variable that says what a definition has at the location.
func datasourceSuffix(location string) string {
	switch location {
	case "body.configName":
		return "CONFIG_NAME"
	case "body.type":
		return "TYPE"
	case "body.host":
		return "HOST"
	case "body.port":
		return "PORT"
	case "body.databaseName":
		return "DATABASE"
	case "body.userName":
		return "USER"
	case "body.password":
		return "PASSWORD"
	case "body.ssl.ca":
		return "SSL_CA"
	case "body.ssl.cert":
		return "SSL_CERT"
	case "body.ssl.key":
		return "SSL_KEY"
	case "body.ssl", "body.ssl.mode":
		return "SSLMODE"
	default: // the schema is an option too
		return "OPTIONS"
	}
}

// define translates a definition, and reports whether the ids of its tenants are ids.
func define(d *config.Datasource, multi bool) (definition connections.Definition, validTenants bool) {
	password := d.Password.Reveal()
	in := connections.Input{
		ConfigName: &d.ConfigName, Kind: &d.Type, Host: &d.Host, Port: &d.Port, DatabaseName: &d.Database, UserName: &d.User,
		Password: &password, SSL: &connections.SSLInput{
			Mode: optional(d.SSLMode), CA: optional(d.SSLCA.Reveal()), Cert: optional(d.SSLCert.Reveal()), Key: optional(d.SSLKey.Reveal()),
		},
	}
	definition = connections.Definition{Input: in, Options: d.Options.Reveal(), Everyone: !multi || slices.Contains(d.Tenants, everyTenant)}
	validTenants = true
	for _, id := range d.Tenants {
		canonical, ok := tenantid.Canonical(id)
		if ok {
			definition.Tenants = append(definition.Tenants, canonical)
		}
		validTenants = validTenants && (ok || id == everyTenant)
	}
	return definition, validTenants
}

// optional is nil for a value that is not set.
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// internals are the internal datasources of a configuration that passed its rules.
func internals(cfg *config.Config) (*connections.Internals, error) {
	definitions := make([]connections.Definition, 0, len(cfg.Datasources))
	for i := range cfg.Datasources {
		definition, _ := define(&cfg.Datasources[i], cfg.Tenants.Multi)
		definitions = append(definitions, definition)
	}
	made, err := connections.NewInternals(definitions...)
	if err != nil {
		return nil, fmt.Errorf("reading the internal datasources: %w", err)
	}
	return made, nil
}
