package embedded

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
)

const keyFile = "issuer.key"

func readKey(path string) (*rsa.PrivateKey, error) {
	data, err := os.ReadFile(path) // #nosec G304 -- in our own directory
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("no PEM in " + keyFile)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(*rsa.PrivateKey)
	if !ok {
		return nil, errors.New("no RSA key in " + keyFile)
	}
	return key, nil
}

// createKey makes a key and keeps it at path, mode 0600.
func createKey(path string) (*rsa.PrivateKey, error) {
	const bits = 2048
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePrivate(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// thumbprint is the key's id by RFC 7638.
func thumbprint(key *rsa.PublicKey) string {
	encode := base64.RawURLEncoding.EncodeToString
	canonical := fmt.Sprintf(`{"e":%q,"kty":"RSA","n":%q}`,
		encode(big.NewInt(int64(key.E)).Bytes()), encode(key.N.Bytes()))
	sum := sha256.Sum256([]byte(canonical))
	return encode(sum[:])
}
