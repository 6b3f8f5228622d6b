package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/fetcherhq/fetcher/config"
	"github.com/fetcherhq/fetcher/connections"
	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/embedded"
	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
)

// plantedConnection is a connection without a product, as imports of older data leave them.
const plantedConnection = "unassigned_demo"

// plant makes sure that every demo tenant has the planted connection, and that it leads to the sample database, whose
// server may have moved to another port. One that was assigned to a product meanwhile keeps it.
func (g *devGateway) plant(ctx context.Context, cfg *config.Config, registry *control.DB, keys *secret.Keyring) (err error) {
	// What the caller allows tenants to name is no matter here.
	guard, err := dial.NewGuard(dial.Policy{AllowPrivate: true})
	if err != nil {
		return err
	}
	service, err := connections.New(connections.Options{Keys: keys, Guard: guard})
	if err != nil {
		return err
	}
	router, err := tenant.NewRouter(ctx, tenant.Options{
		Control: registry, Keys: keys, AutoMigrate: true, MaxPools: len(demoTenants()), MaxConns: 1, Logger: g.log,
		MaxConnsPerHost: cfg.Tenants.MaxConnsPerHost,
	})
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownLimit)
		defer cancel()
		err = errors.Join(err, router.Close(closing))
	}()
	for _, id := range demoTenants() {
		if err = plantOne(ctx, router, service, id, g.info.Sample); err != nil {
			return fmt.Errorf("tenant %s: %w", id, err)
		}
	}
	return nil
}

func plantOne(ctx context.Context, router *tenant.Router, service *connections.Service, id string, sample embedded.SampleInfo) error {
	lease, err := router.Acquire(ctx, id)
	if err != nil {
		return err
	}
	defer lease.Release()
	db := store.NewConnections(lease.DB(ctx))
	found, err := db.ByNames(ctx, []string{plantedConnection})
	if err != nil {
		return err
	}
	if len(found) == 0 {
		_, err = service.Create(ctx, db, id, "", sampleInput(sample))
		return err
	}
	c := found[0]
	if c.Host != sample.Host || c.DatabaseName != sample.DatabaseName || c.UserName != sample.UserName {
		return nil // somebody made something else of it
	}
	if c.Port == sample.Port {
		return nil
	}
	return db.Relocate(ctx, c.ID, sample.Port)
}

func sampleInput(sample embedded.SampleInfo) connections.Input {
	name := plantedConnection
	return connections.Input{
		ConfigName: &name, Kind: &sample.Type, Host: &sample.Host, Port: &sample.Port, DatabaseName: &sample.DatabaseName,
		UserName: &sample.UserName, Password: &sample.Password,
	}
}
