package postgres

import (
	"crypto/tls"
	"errors"

	"github.com/fetcherhq/fetcher/source"
)

// attempt is one way to connect.
type attempt struct {
	tls      *tls.Config // nil: unencrypted
	optional bool        // go on unencrypted if the server has no TLS
}

// plan returns the ways to connect in the TLS mode of p, in order, with libpq's meaning of the modes: allow and prefer
// take the other way when the first one is refused; require does not look at the certificate unless there is a CA,
// and then is verify-ca; verify-ca does not look at the name. Without a CA the verify modes use the system's roots.
func plan(p source.Params) ([]attempt, error) {
	mode := p.TLS.Mode
	if mode == "" {
		mode = source.DefaultMode(source.PostgreSQL)
	}
	if mode == "disable" {
		return []attempt{{}}, nil
	}
	config, err := tlsConfig(mode, p)
	if err != nil {
		return nil, err
	}
	switch mode {
	case "allow":
		return []attempt{{}, {tls: config}}, nil
	case "prefer":
		return []attempt{{tls: config, optional: true}, {}}, nil
	case "require", "verify-ca", "verify-full":
		return []attempt{{tls: config}}, nil
	}
	return nil, errors.New("unknown TLS mode")
}

func tlsConfig(mode string, p source.Params) (*tls.Config, error) {
	check := source.CheckNothing
	switch {
	case mode == "verify-full":
		check = source.CheckName
	case mode == "verify-ca", mode == "require" && p.TLS.CA != "":
		check = source.CheckChain
	}
	return p.ClientTLS(check)
}
