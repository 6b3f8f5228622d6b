package mysql

import (
	"crypto/tls"
	"errors"

	"github.com/fetcherhq/fetcher/source"
)

// attempt is one way to connect.
type attempt struct {
	tls      *tls.Config // nil: unencrypted
	optional bool        // go on unencrypted if the server has no TLS
	verified bool        // the server is whom we think it is
}

// plan returns the ways to connect in the TLS mode of p, in order. preferred looks at no certificate and goes on
// unencrypted where TLS does not come about; true checks issuer and name.
func plan(p source.Params) ([]attempt, error) {
	mode := p.TLS.Mode
	if mode == "" {
		mode = source.DefaultMode(source.MySQL)
	}
	if mode == "false" {
		return []attempt{{}}, nil
	}
	check := source.CheckNothing
	if mode == "true" {
		check = source.CheckName
	}
	config, err := p.ClientTLS(check)
	if err != nil {
		return nil, err
	}
	switch mode {
	case "preferred":
		return []attempt{{tls: config, optional: true}, {}}, nil
	case "skip-verify":
		return []attempt{{tls: config}}, nil
	case "true":
		return []attempt{{tls: config, verified: true}}, nil
	}
	return nil, errors.New("unknown TLS mode")
}
