package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/fetcherhq/fetcher/config"
	"github.com/fetcherhq/fetcher/dial"
	"github.com/fetcherhq/fetcher/documents"
	"github.com/fetcherhq/fetcher/documents/fetch"
	"github.com/fetcherhq/fetcher/results"
)

// documents is the service of web documents. Without CONTENT_URL it approves sources but fetches nothing.
func (a *app) documents(ctx context.Context) (*documents.Service, error) {
	c := a.cfg.Documents
	client, err := a.webClient(c)
	if err != nil {
		return nil, err
	}
	opts := documents.Options{
		Tenants: a.router, Fetcher: client, AllowedPorts: c.AllowedPorts, RatePerMinute: c.RatePerMinute,
		SingleTenant: !a.cfg.Tenants.Multi, Logger: a.log,
	}
	if c.ContentURL.IsSet() {
		store, err := results.Open(ctx, c.ContentURL.Reveal(), a.keys, results.Options{})
		if err != nil {
			return nil, fmt.Errorf("opening CONTENT_URL: %w", err)
		}
		a.onClose(func(context.Context) error { return store.Close() })
		opts.Content = store
	}
	return documents.New(opts)
}

// webClient fetches from approved origins.
func (a *app) webClient(c config.Documents) (*fetch.Client, error) {
	roots, err := webRoots(c.DevRootCA)
	if err != nil {
		return nil, err
	}
	client, err := fetch.New(fetch.Options{
		Policy:   dial.Policy{AllowPrivate: !a.cfg.Tenants.Multi, Allow: a.cfg.Sources.AllowPrivateHosts},
		Resolver: webResolver(c.DevResolver), RootCAs: roots,
	})
	if err != nil {
		return nil, fmt.Errorf("ALLOW_PRIVATE_HOSTS: %w", err)
	}
	return client, nil
}

// webRoots are the system's authorities and those of a PEM file; nil, which stands for the system's, without one.
func webRoots(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // see above
	}
	pem, err := os.ReadFile(path) // #nosec G304 -- the operator names the file
	if err != nil {
		return nil, usageError{errors.New("FETCH_DEV_ROOT_CA: the file can't be read")}
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("reading the system's authorities: %w", err)
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, usageError{errors.New("FETCH_DEV_ROOT_CA: the file holds no certificate in PEM")}
	}
	return pool, nil
}

// webResolver looks origins up with the name server at address, with the system's if that is empty. Names below localhost
// are never asked for: they are loopback (RFC 6761), whatever a name server would say.
func webResolver(address string) dial.Resolver {
	resolver := net.DefaultResolver
	if address != "" {
		resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		}}
	}
	return localNames{resolver}
}

type localNames struct{ dial.Resolver }

// LookupNetIP returns the addresses of host.
func (r localNames) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if strings.HasSuffix(strings.ToLower(strings.TrimSuffix(host, ".")), ".localhost") {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
	}
	return r.Resolver.LookupNetIP(ctx, network, host)
}
