package connections

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"strings"
)

const (
	notCertificate = "must be PEM with one or more certificates"
	notKey         = "must be PEM with one private key that is not encrypted"
	otherKey       = "does not belong to the certificate"
	negativeSerial = "holds a certificate with a negative serial number, which is not valid; issue it anew"
)

// checkCertificates returns what is wrong with a PEM text of certificates, or "". It never quotes the text.
func checkCertificates(text string) string {
	blocks := decodePEM(text)
	if len(blocks) == 0 {
		return notCertificate
	}
	for _, b := range blocks {
		if b.Type != "CERTIFICATE" {
			return notCertificate
		}
		if _, err := x509.ParseCertificate(b.Bytes); err != nil {
			if strings.Contains(err.Error(), "negative serial number") {
				return negativeSerial
			}
			return notCertificate
		}
	}
	return ""
}

// checkPair checks a client certificate and its key, of which neither is missing if the other is there.
func checkPair(f *faults, cert, key *string) {
	if blank(cert) && blank(key) {
		if cert != nil {
			f.malformed("body.ssl.cert", notCertificate)
		}
		if key != nil {
			f.malformed("body.ssl.key", notKey)
		}
		return
	}
	certMessage, keyMessage := checkCertificates(*cert), checkKey(*key)
	if certMessage != "" {
		f.malformed("body.ssl.cert", certMessage)
	}
	if keyMessage != "" {
		f.malformed("body.ssl.key", keyMessage)
	}
	if certMessage == "" && keyMessage == "" {
		if _, err := tls.X509KeyPair([]byte(*cert), []byte(*key)); err != nil {
			f.malformed("body.ssl.key", otherKey)
		}
	}
}

// checkKey returns what is wrong with a PEM text of one private key, or "".
func checkKey(text string) string {
	keys := 0
	for _, b := range decodePEM(text) {
		switch {
		case b.Type == "EC PARAMETERS": // some tools put them in front
		case parsesAsKey(b.Bytes):
			keys++
		default:
			return notKey
		}
	}
	if keys != 1 {
		return notKey
	}
	return ""
}

func parsesAsKey(der []byte) bool {
	if _, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		return true
	}
	if _, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return true
	}
	_, err := x509.ParseECPrivateKey(der)
	return err == nil
}

// decodePEM returns every block of the text, or nil when one is broken: the decoder skips those silently.
func decodePEM(text string) []*pem.Block {
	var blocks []*pem.Block
	for rest := []byte(text); ; {
		b, after := pem.Decode(rest)
		if b == nil {
			break
		}
		blocks = append(blocks, b)
		rest = after
	}
	if len(blocks) != strings.Count(text, "-----BEGIN ") {
		return nil
	}
	return blocks
}
