package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"

	"github.com/caarlos0/env/v11"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fetcherhq/fetcher/config"
	"github.com/fetcherhq/fetcher/embedded"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
)

const (
	controlDatabase = "fetcher"
	devLogFormat    = "text" // people read it
)

func demoTenants() []string { return []string{"acme", "globex"} }

// configure works out the environment of the service: what the embedded parts decide, then the caller's variables,
// then defaults for development. What other processes need is kept for `fetcher dev env`.
func (g *devGateway) configure(ctx context.Context, key string) (*config.Config, error) {
	database, err := g.postgres.EnsureDatabase(ctx, controlDatabase, controlDatabase, embedded.RoleCreateDB, embedded.RoleCreateRole)
	if err != nil {
		return nil, fmt.Errorf("creating the control database: %w", err)
	}
	results, err := fileURL(g.dir.results())
	if err != nil {
		return nil, err
	}
	content, err := fileURL(g.dir.content())
	if err != nil {
		return nil, err
	}
	const on = "true"
	decided := map[string]string{
		"DATABASE_URL": database.DSN(), "MULTI_TENANT_ENABLED": on,
		"PLUGIN_AUTH_ENABLED": on, "PLUGIN_AUTH_ADDRESS": g.issuer.URL(),
	}
	shared := map[string]string{
		"APP_ENC_KEY": key, "RESULTS_URL": results, "CONTENT_URL": content, "ALLOW_PRIVATE_HOSTS": "127.0.0.0/8,::1/128", "HEALTH_ADDRESS": "127.0.0.1:0",
	}
	if g.opts.disposable { // what is deleted at the stop must be ours, whatever the caller's environment names
		maps.Copy(decided, shared)
	}
	own := map[string]string{
		"SERVER_ADDRESS": g.opts.listen, "READYZ_DRAIN_DELAY_SEC": "0", "SHUTDOWN_GRACE": "5s", "SWAGGER_ENABLED": on,
		"LOG_FORMAT": devLogFormat,
	}
	given := env.ToMap(os.Environ())
	exported := merge(shared, given)
	for name, value := range given { // a worker beside it must know them too
		if strings.HasPrefix(name, "DATASOURCE_") || strings.HasPrefix(name, "FETCH_") {
			exported[name] = value
		}
	}
	maps.Copy(exported, decided)
	web, err := g.webSettings(given)
	if err != nil {
		return nil, err
	}
	maps.Copy(exported, web)
	if err = writeEnvFile(g.dir.env(), exported); err != nil {
		return nil, err
	}
	vars := maps.Clone(given)
	for _, layer := range []map[string]string{merge(own, given), exported} {
		maps.Copy(vars, layer)
	}
	for name := range decided {
		delete(vars, name+"_FILE")
	}
	if g.opts.listen != "" {
		vars["SERVER_ADDRESS"] = g.opts.listen
	}
	environ := make([]string, 0, len(vars))
	for name, value := range vars {
		environ = append(environ, name+"="+value)
	}
	const role = config.RoleManager | config.RoleWorker | config.RoleAdmin
	cfg, err := config.Load(environ, role, serviceRules(role)...)
	if err != nil {
		return nil, usageError{err}
	}
	g.info.Issuer, g.info.DatabaseURL = g.issuer.URL(), database.DSN()
	return cfg, nil
}

// merge gives each default unless the caller's environment has a value of its own, in clear or by file.
func merge(defaults, given map[string]string) map[string]string {
	out := map[string]string{}
	for name, value := range defaults {
		switch {
		case given[name] != "":
			out[name] = given[name]
		case given[name+"_FILE"] != "":
			out[name+"_FILE"] = given[name+"_FILE"]
		default:
			out[name] = value
		}
	}
	return out
}

// populate migrates the control database and makes sure of the demo tenants, the sample source and the planted
// connections.
func (g *devGateway) populate(ctx context.Context, cfg *config.Config) error {
	pool, err := pgxpool.New(ctx, cfg.Database.URL.Reveal())
	if err != nil {
		return errDatabaseURL
	}
	defer pool.Close()
	if err = migrateControl(ctx, pool, true); err != nil {
		return err
	}
	keys, err := newKeyring(cfg)
	if err != nil {
		return err
	}
	registry := control.New(pool)
	admin := tenant.Admin{Control: registry, Keys: keys}
	for _, id := range demoTenants() {
		if err = g.ensureTenant(ctx, admin, id); err != nil {
			return fmt.Errorf("preparing tenant %s: %w", id, err)
		}
	}
	if g.info.Sample, err = g.postgres.CreateSample(ctx); err != nil {
		return fmt.Errorf("preparing the sample source: %w", err)
	}
	if err = g.plant(ctx, cfg, registry, keys); err != nil {
		return fmt.Errorf("planting connections: %w", err)
	}
	return nil
}

// ensureTenant registers the tenant, or follows a server that has moved to another port.
func (g *devGateway) ensureTenant(ctx context.Context, admin tenant.Admin, id string) error {
	database, err := g.postgres.EnsureDatabase(ctx, controlDatabase+"_"+id, controlDatabase+"_"+id)
	if err != nil {
		return err
	}
	known, err := admin.Get(ctx, id)
	switch {
	case errors.Is(err, control.ErrNoTenant):
		_, err = admin.Create(ctx, tenant.NewTenant{ID: id, Name: id, DSN: database.DSN()})
	case err == nil:
		var dsn string
		if dsn, err = admin.DSN(known); err == nil && dsn != database.DSN() {
			_, err = admin.SetDSN(ctx, id, database.DSN())
		}
	}
	if err != nil {
		return err
	}
	return g.addTenant(id, database.DSN())
}

// addTenant puts the tenant with its ready-made tokens into what dev.json will say.
func (g *devGateway) addTenant(id, dsn string) error {
	t := embedded.DevTenant{ID: id, OrgID: tenant.OrgID(id).String(), DatabaseURL: dsn}
	for role, token := range map[string]*string{
		embedded.RoleAdmin: &t.Tokens.Admin, embedded.RoleOperator: &t.Tokens.Operator,
		embedded.RoleViewer: &t.Tokens.Viewer, embedded.RoleMachine: &t.Tokens.Machine,
	} {
		minted, err := g.issuer.Mint(embedded.TokenRequest{Tenant: id, Role: role})
		if err != nil {
			return err
		}
		*token = minted
	}
	g.info.Tenants = append(g.info.Tenants, t)
	return nil
}
