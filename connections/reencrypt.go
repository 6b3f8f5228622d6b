package connections

import (
	"fmt"

	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/store"
)

// Reencrypt seals those secrets of a tenant's connection anew that are sealed under another than the current key, and
// reports whether there were any. It fails, with c as it was, when one can't be opened.
func Reencrypt(keys *secret.Keyring, tenantID string, c *store.Connection) (changed bool, err error) {
	next := *c
	for _, f := range []struct {
		field  string
		sealed *[]byte
	}{
		{fieldPassword, &next.PasswordSealed},
		{fieldCA, &next.SSLCASealed},
		{fieldCert, &next.SSLCertSealed},
		{fieldKey, &next.SSLKeySealed},
	} {
		if *f.sealed == nil {
			continue
		}
		sealed, again, err := keys.Reseal(scope(tenantID, c.ID, f.field), *f.sealed)
		if err != nil {
			return false, fmt.Errorf("%s of connection %s: %w", f.field, c.ID, err)
		}
		*f.sealed, changed = sealed, changed || again
	}
	if changed = changed || next.KeyVersion != keys.CurrentVersion(); changed {
		next.KeyVersion = keys.CurrentVersion()
		*c = next
	}
	return changed, nil
}
