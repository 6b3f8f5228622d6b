package postgres

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"

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
	config := &tls.Config{
		MinVersion: tls.VersionTLS12,
		// The standard check can't leave out the name; verifier does the whole of it where the mode asks for one.
		InsecureSkipVerify: true, // #nosec G402
	}
	if net.ParseIP(p.Host) == nil {
		config.ServerName = p.Host
	}
	v := verifier{host: p.Host}
	if p.TLS.CA != "" {
		v.roots = x509.NewCertPool()
		if !v.roots.AppendCertsFromPEM([]byte(p.TLS.CA)) {
			return nil, errors.New("CA holds no certificate")
		}
	}
	switch {
	case mode == "verify-full":
		v.name = true
		config.VerifyConnection = v.verify
	case mode == "verify-ca", mode == "require" && v.roots != nil:
		config.VerifyConnection = v.verify
	}
	if p.TLS.Cert != "" || p.TLS.Key != "" {
		pair, err := tls.X509KeyPair([]byte(p.TLS.Cert), []byte(p.TLS.Key))
		if err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		// Presented whatever authorities the server names, as libpq does: it may accept the certificate all the same.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return config, nil
}

// verifier checks a server's certificate.
type verifier struct {
	roots *x509.CertPool // nil: the system's
	host  string
	name  bool // the certificate must be for host
}

func (v verifier) verify(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("server sent no certificate")
	}
	leaf := state.PeerCertificates[0]
	options := x509.VerifyOptions{Roots: v.roots, Intermediates: x509.NewCertPool()}
	for _, c := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(c)
	}
	if _, err := leaf.Verify(options); err != nil {
		return fmt.Errorf("verify certificate: %w", err)
	}
	if !v.name {
		return nil
	}
	return matchesHost(leaf, v.host)
}

// matchesHost checks the name of the certificate. Like libpq, and unlike crypto/x509, it takes the common name of a
// certificate without alternative names for one: private authorities still issue those.
func matchesHost(leaf *x509.Certificate, host string) error {
	err := leaf.VerifyHostname(host)
	if err == nil {
		return nil
	}
	if len(leaf.DNSNames)+len(leaf.IPAddresses)+len(leaf.EmailAddresses)+len(leaf.URIs) > 0 {
		return fmt.Errorf("verify name: %w", err)
	}
	stand := &x509.Certificate{DNSNames: []string{leaf.Subject.CommonName}}
	if ip := net.ParseIP(leaf.Subject.CommonName); ip != nil {
		stand.IPAddresses = []net.IP{ip}
	}
	if stand.VerifyHostname(host) != nil {
		return fmt.Errorf("verify name: %w", err)
	}
	return nil
}
