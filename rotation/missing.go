package rotation

import (
	"context"
	"slices"

	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/store/control"
)

// Unreadable is what can't be read because a version of the master key is not in the ring.
type Unreadable struct {
	Version     int
	Addresses   int // of tenants' databases; nothing of these tenants can be reached
	Webhooks    int
	Connections int // whose secrets are sealed under it
	Filters     int // of jobs
	Results     int
	Contents    int // of web documents
	Unknown     int // tenants that could not be asked
}

// Missing notes that the current version is in use and returns what can't be read, one for each version that was in use
// before and is not in the ring; none when there is no such version, which costs two questions to the control database.
// tenants are those to be asked.
func (r *Rotator) Missing(ctx context.Context, tenants func(context.Context) ([]string, error)) ([]Unreadable, error) {
	if err := CheckKeys(ctx, r.Control, r.Keys); err != nil {
		return nil, err
	}
	used, err := r.Control.KeyVersions(ctx)
	if err != nil {
		return nil, err
	}
	missing := map[int]*Unreadable{}
	for _, version := range used {
		if !slices.Contains(r.Keys.Versions(), version) {
			missing[version] = &Unreadable{Version: version}
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	if err = r.missingRegistry(ctx, missing); err != nil {
		return nil, err
	}
	ids, err := tenants(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		r.missingTenant(ctx, id, missing)
	}
	all := make([]Unreadable, 0, len(missing))
	for _, version := range used {
		if u := missing[version]; u != nil {
			all = append(all, *u)
		}
	}
	return all, nil
}

func (r *Rotator) missingRegistry(ctx context.Context, missing map[int]*Unreadable) error {
	for _, kind := range []string{control.SealedDSNs, control.SealedWebhooks} {
		rows, err := r.Control.SealedRows(ctx, kind)
		if err != nil {
			return err
		}
		for _, row := range rows {
			version, err := secret.SealedVersion(row.Sealed)
			u := missing[version]
			switch {
			case err != nil || u == nil:
			case kind == control.SealedDSNs:
				u.Addresses++
			default:
				u.Webhooks++
			}
		}
	}
	return nil
}

// missingTenant counts what one tenant's database holds. One that can't be asked counts as unknown.
func (r *Rotator) missingTenant(ctx context.Context, id string, missing map[int]*Unreadable) {
	var uses []store.KeyUse
	err := r.with(ctx, id, func(rows store.Sealed, _ store.Retention) (err error) {
		uses, err = rows.KeyUse(ctx)
		return err
	})
	if err != nil {
		for _, u := range missing {
			u.Unknown++
		}
		return
	}
	for _, use := range uses {
		if u := missing[use.Version]; u != nil {
			u.Connections += use.Connections
			u.Filters += use.Filters
			u.Results += use.Results
			u.Contents += use.Contents
		}
	}
}
