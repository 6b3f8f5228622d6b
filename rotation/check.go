package rotation

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenant"
)

// WrongKeyError says that a version of the ring has another key than the one it had here before.
type WrongKeyError struct {
	Version int
	Current bool // it is the one that seals
}

// Error names the version.
func (e *WrongKeyError) Error() string {
	return fmt.Sprintf("version %d of the master key was another key here before", e.Version)
}

const checkText = "fetcher"

// checkScope is no tenant's: their ids have no asterisk.
func checkScope(version int) secret.Scope {
	return secret.Scope{Tenant: "*", Object: strconv.Itoa(version), Field: "key check"}
}

// CheckKeys makes sure that the keys of the ring are those that their versions had when they were first used here, and
// notes the current one, if it is the first. Otherwise it fails with a WrongKeyError, and notes nothing.
func CheckKeys(ctx context.Context, db *control.DB, keys *secret.Keyring) error {
	known, err := noted(ctx, db, keys)
	if err != nil || known {
		return err
	}
	if err = checkAddresses(ctx, db, keys); err != nil {
		return err
	}
	sealed, err := keys.Seal(checkScope(keys.CurrentVersion()), []byte(checkText))
	if err != nil {
		return fmt.Errorf("check keys: %w", err)
	}
	if err = db.UseKeyVersion(ctx, keys.CurrentVersion(), sealed); err != nil {
		return err
	}
	_, err = noted(ctx, db, keys) // another process with another key may have been first
	return err
}

// noted holds the ring against what is kept of its versions, and reports whether the current one is among them.
func noted(ctx context.Context, db *control.DB, keys *secret.Keyring) (current bool, err error) {
	versions, err := db.SealedVersions(ctx)
	if err != nil {
		return false, err
	}
	for _, v := range versions {
		if v.Sealed == nil {
			continue
		}
		isCurrent := v.Version == keys.CurrentVersion()
		switch _, err = keys.Open(checkScope(v.Version), v.Sealed); {
		case errors.Is(err, secret.ErrUnknownKey): // not in the ring: Missing tells what that means
		case err != nil:
			return false, &WrongKeyError{v.Version, isCurrent}
		default:
			current = current || isCurrent
		}
	}
	return current, nil
}

// checkAddresses looks at what tenants' addresses are sealed under, where nothing was kept of the current version: by a
// program that did not know how.
func checkAddresses(ctx context.Context, db *control.DB, keys *secret.Keyring) error {
	rows, err := db.SealedRows(ctx, control.SealedDSNs)
	if err != nil {
		return err
	}
	for _, row := range rows {
		version, err := secret.SealedVersion(row.Sealed)
		if err != nil || version != keys.CurrentVersion() {
			continue
		}
		if _, err = (tenant.Admin{Keys: keys}).DSN(control.Tenant{ID: row.TenantID, DSNSealed: row.Sealed}); errors.Is(err, secret.ErrTampered) {
			return &WrongKeyError{keys.CurrentVersion(), true}
		}
	}
	return nil
}
