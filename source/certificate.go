package source

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
)

// CertificateCheck is how much of a server's certificate is looked at.
type CertificateCheck int

// The checks, each stricter than the one before.
const (
	CheckNothing CertificateCheck = iota
	CheckChain                    // an authority we trust issued it: p.TLS.CA if given, else the system's roots
	CheckName                     // and it is for p.Host
)

// ClientTLS returns the configuration of an encrypted connection to p.Host, TLS 1.2 or newer, that presents the client
// certificate of p, whatever authorities the server names, and makes the check. Each call returns a new one.
func (p Params) ClientTLS(check CertificateCheck) (*tls.Config, error) {
	config := &tls.Config{
		MinVersion: tls.VersionTLS12,
		// The standard check can't leave out the name; verifier does the whole of it where one is asked for.
		InsecureSkipVerify: true, // #nosec G402
	}
	if net.ParseIP(p.Host) == nil {
		config.ServerName = p.Host
	}
	v := verifier{host: p.Host, name: check == CheckName}
	if p.TLS.CA != "" {
		v.roots = x509.NewCertPool()
		if !v.roots.AppendCertsFromPEM([]byte(p.TLS.CA)) {
			return nil, errors.New("CA holds no certificate")
		}
	}
	if check != CheckNothing {
		config.VerifyConnection = v.verify
	}
	if p.TLS.Cert != "" || p.TLS.Key != "" {
		pair, err := tls.X509KeyPair([]byte(p.TLS.Cert), []byte(p.TLS.Key))
		if err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		// The server may accept a certificate whose authority it does not name.
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
