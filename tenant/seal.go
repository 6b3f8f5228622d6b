package tenant

import (
	"fmt"

	"github.com/fetcherhq/fetcher/secret"
)

func dsnScope(id string) secret.Scope {
	return secret.Scope{Tenant: id, Object: "tenant", Field: "dsn"}
}

// SealDSN seals the address of a tenant's database as the registry keeps it.
func SealDSN(keys *secret.Keyring, id, dsn string) ([]byte, error) {
	sealed, err := keys.Seal(dsnScope(id), []byte(dsn))
	if err != nil {
		return nil, fmt.Errorf("seal tenant dsn: %w", err)
	}
	return sealed, nil
}

func openDSN(keys *secret.Keyring, id string, sealed []byte) (string, error) {
	dsn, err := keys.Open(dsnScope(id), sealed)
	if err != nil {
		return "", fmt.Errorf("open tenant dsn: %w", err)
	}
	return string(dsn), nil
}

// ReencryptDSN seals a sealed address anew, under the current key, and reports whether it was not so already.
func ReencryptDSN(keys *secret.Keyring, id string, sealed []byte) (again []byte, changed bool, err error) {
	return keys.Reseal(dsnScope(id), sealed)
}
