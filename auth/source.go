package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/MicahParks/jwkset"
)

const (
	discoveryPath = "/.well-known/openid-configuration"
	jwksPath      = "/.well-known/jwks.json"
)

// source knows where the keys are and fetches them. One fetch runs at a time.
type source struct {
	client  *client
	address string // without a trailing slash
	jwksURL string // overrides discovery
	want    string // the issuer that overrides discovery

	found *place // nil until discovery answered
}

// place is what discovery says. Empty members: it says nothing.
type place struct {
	JWKSURL string `json:"jwks_uri"`
	Issuer  string `json:"issuer"`
}

// fetched is the outcome of one fetch.
type fetched struct {
	keys    []jwkset.JWK
	skipped int
	issuer  string
}

// fetch reads the keys. With again, discovery is asked again too; if only that fails, what it said before stays good.
func (s *source) fetch(ctx context.Context, again bool) (fetched, error) {
	p, err := s.locate(ctx, again)
	if err != nil {
		return fetched{}, err
	}
	body, err := s.client.get(ctx, p.JWKSURL)
	if err != nil {
		return fetched{}, fmt.Errorf("key set: %w", err)
	}
	keys, skipped, err := parseKeySet(body)
	if err != nil {
		return fetched{}, fmt.Errorf("key set: %w", err)
	}
	return fetched{keys: keys, skipped: skipped, issuer: p.Issuer}, nil
}

// locate joins overrides, discovery and the well-known default.
func (s *source) locate(ctx context.Context, again bool) (place, error) {
	p := place{JWKSURL: s.jwksURL, Issuer: s.want}
	if p.JWKSURL != "" && p.Issuer != "" {
		return p, nil
	}
	if s.found == nil || again {
		found, err := s.discover(ctx)
		if err != nil && s.found == nil {
			return place{}, fmt.Errorf("discovery: %w", err)
		}
		if err == nil {
			s.learn(found)
		}
	}
	if p.JWKSURL == "" {
		p.JWKSURL = s.found.JWKSURL
	}
	if p.JWKSURL == "" {
		p.JWKSURL = s.address + jwksPath
	}
	if p.Issuer == "" {
		p.Issuer = s.found.Issuer
	}
	return p, nil
}

// learn keeps what discovery said. An issuer that was known once is never forgotten: it may change, not vanish.
func (s *source) learn(p place) {
	if p.Issuer == "" && s.found != nil {
		p.Issuer = s.found.Issuer
	}
	s.found = &p
}

var (
	errNotDiscovery = errors.New("answer is not a discovery document")
	errKeySetURL    = errors.New("jwks_uri is not an absolute URL at least as safe as the address")
)

// discover asks for the discovery document. That there is none is an answer; failing to ask is an error, lest an outage
// make us forget to check the issuer.
func (s *source) discover(ctx context.Context) (place, error) {
	body, err := s.client.get(ctx, s.address+discoveryPath)
	var status *statusError
	if errors.As(err, &status) && status.absent() {
		return place{}, nil
	}
	if err != nil {
		return place{}, err
	}
	var p *place
	if json.Unmarshal(body, &p) != nil || p == nil {
		return place{}, errNotDiscovery
	}
	if p.JWKSURL != "" && !safe(p.JWKSURL, s.address) {
		return place{}, errKeySetURL
	}
	return *p, nil
}

// probe reports whether the identity service answers at all.
func (s *source) probe(ctx context.Context) error {
	_, err := s.client.get(ctx, s.address+discoveryPath)
	var status *statusError
	if errors.As(err, &status) && status.absent() {
		return nil
	}
	return err
}

// safe reports whether a URL is http or https, and https if base is.
func safe(raw, base string) bool {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return false
	}
	b, err := url.Parse(base)
	return err == nil && (u.Scheme == schemeTLS || u.Scheme == schemePlain && b.Scheme == schemePlain)
}

// statusError is an answer with a status that was not hoped for.
type statusError struct{ status int }

func (e *statusError) Error() string { return fmt.Sprintf("status %d", e.status) }

// absent reports whether the status says that there is no such document.
func (e *statusError) absent() bool {
	switch e.status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	default:
		return e.status >= http.StatusBadRequest && e.status < http.StatusInternalServerError
	}
}
