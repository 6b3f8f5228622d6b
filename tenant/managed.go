package tenant

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/errgroup"

	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/store/control"
)

const (
	// managerPoll is how often the list of active tenants is read: a suspension is known within 5 s.
	managerPoll = 4 * time.Second
	// managerParallel is how many tenants are asked about at once.
	managerParallel = 8
)

// managedRegistry is the registry of an external tenant manager, which tells neither revisions nor changes. A revision
// is made up whenever an answer differs from the last one; that an active tenant comes or goes is seen in the list.
// Addresses are sealed as in the other registry, so that a record in memory holds no password in clear.
type managedRegistry struct {
	client *managerClient
	keys   *secret.Keyring
	now    func() time.Time
	ttl    time.Duration // in which every known tenant is asked about again
	poll   time.Duration

	mu   sync.Mutex
	seen *simplelru.LRU[string, sighting]
}

// sighting is the latest answer about a tenant.
type sighting struct {
	print    [sha256.Size]byte
	revision int64
	asked    time.Time
	active   bool
	sealed   []byte // the address told last
}

func newManagedRegistry(m Manager, keys *secret.Keyring, o Options) (*managedRegistry, error) {
	seen, err := simplelru.NewLRU[string, sighting](o.MaxRecords, nil)
	if err != nil {
		return nil, fmt.Errorf("managed tenants: %w", err)
	}
	return &managedRegistry{client: newManagerClient(m), keys: keys, now: o.Now, ttl: o.CacheTTL / 2, poll: managerPoll, seen: seen}, nil
}

func (m *managedRegistry) get(ctx context.Context, id string) (control.Tenant, error) {
	asked := m.now()
	a, err := m.client.tenant(ctx, id)
	if err != nil {
		return control.Tenant{}, err
	}
	t := control.Tenant{ID: id, Name: a.Name, Status: managedStatus(a.Status), MaxConns: max(a.Settings.MaxOpenConns, 0)}
	if t.Name == "" {
		t.Name = id
	}
	var dsn string
	if t.Status == control.TenantActive {
		if dsn, err = a.dsn(m.client.Manager); err != nil {
			return control.Tenant{}, err
		}
		if t.DSNSealed, err = SealDSN(m.keys, id, dsn); err != nil {
			return control.Tenant{}, err
		}
	}
	m.revise(&t, dsn, asked)
	return t, nil
}

// revise sets the revision of what was answered: the former one if nothing differs, else one above all before it, also
// above those of tenants that were forgotten meanwhile. A suspended tenant, of which the manager tells no address, keeps
// the former one: what was under way for it still has to end.
func (m *managedRegistry) revise(t *control.Tenant, dsn string, asked time.Time) {
	digest := sha256.Sum256(fmt.Appendf(nil, "%q %q %d %q", t.Name, t.Status, t.MaxConns, dsn))
	m.mu.Lock()
	defer m.mu.Unlock()
	old, ok := m.seen.Get(t.ID)
	t.Revision = old.revision
	if !ok || old.print != digest {
		t.Revision = max(m.now().UnixNano(), old.revision+1)
	}
	if t.Status == control.TenantSuspended {
		t.DSNSealed = old.sealed
	}
	m.seen.Add(t.ID, sighting{digest, t.Revision, asked, t.Status == control.TenantActive, t.DSNSealed})
}

// changed asks again about the known tenants that were not asked about for long. What could not be asked in time is
// left for the next call, and said by the error; the outcomes until then are right.
func (m *managedRegistry) changed(ctx context.Context, known map[string]int64) ([]control.Tenant, []string, error) {
	var (
		mu      sync.Mutex
		changed []control.Tenant
		gone    []string
		failed  error
		group   errgroup.Group
	)
	group.SetLimit(managerParallel)
	for _, id := range m.due(known) {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			t, err := m.get(ctx, id)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, control.ErrNoTenant):
				gone = append(gone, id)
			case err != nil:
				failed = err
			case t.Revision != known[id]:
				changed = append(changed, t)
			}
			return nil
		})
	}
	err := group.Wait()
	return changed, gone, errors.Join(err, failed)
}

// due lists the known tenants that it is time to ask about, those asked longest ago first.
func (m *managedRegistry) due(known map[string]int64) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.now().Add(-m.ttl)
	var ids []string
	asked := map[string]time.Time{}
	for id := range known {
		s, _ := m.seen.Peek(id)
		if !s.asked.After(before) {
			ids, asked[id] = append(ids, id), s.asked
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return asked[a].Compare(asked[b]) })
	return ids
}

// listen reports the tenants that enter or leave the list of active ones, and to begin with those that were seen otherwise
// than the list has them.
func (m *managedRegistry) listen(ctx context.Context, fn func(string)) error {
	var before map[string]bool
	ticker := time.NewTicker(m.poll)
	defer ticker.Stop()
	for {
		ids, err := m.client.active(ctx)
		if err != nil {
			return err
		}
		now := make(map[string]bool, len(ids))
		for _, id := range ids {
			now[id] = true
		}
		if before == nil {
			fn("")
			before = m.activeAmong(now)
		}
		for id := range now {
			if !before[id] {
				fn(id)
			}
		}
		for id := range before {
			if !now[id] {
				fn(id)
			}
		}
		before = now
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// activeAmong is the list as it would be if every tenant were as it was seen last.
func (m *managedRegistry) activeAmong(list map[string]bool) map[string]bool {
	active := maps.Clone(list)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range m.seen.Keys() {
		if s, _ := m.seen.Peek(id); s.active {
			active[id] = true
		} else {
			delete(active, id)
		}
	}
	return active
}

func (m *managedRegistry) dsn(t control.Tenant) (string, error) {
	return openDSN(m.keys, t.ID, t.DSNSealed)
}

func (m *managedRegistry) list(ctx context.Context) ([]string, error) { return m.client.active(ctx) }
