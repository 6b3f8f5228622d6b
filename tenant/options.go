package tenant

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/store/control"
)

// DialFunc makes the network connections to tenants' databases.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// SingleTenant is the one tenant of a deployment without a registry.
type SingleTenant struct {
	ID  string // "default" when empty
	DSN string
}

// Options configure a Router. A zero member takes the default named beside it.
type Options struct {
	// Where tenants are known, one of the three: the control database, an external manager, or nowhere because there is
	// only one. Keys opens the addresses in the first and keeps those of the second sealed in memory.
	Control *control.DB
	Manager *Manager
	Single  *SingleTenant
	Keys    *secret.Keyring

	MaxPools        int           // open pools aimed at; 100
	HardCap         int           // open pools when all are in use; 2 × MaxPools
	MaxConns        int           // connections of one pool, unless the registry sets fewer; 10
	MaxConnsPerHost int           // connections to one address, over all tenants; 80
	IdleTimeout     time.Duration // after which a pool nobody uses closes; 5 min
	CacheTTL        time.Duration // in which every cached record is compared with the registry; 120 s
	MaxRecords      int           // tenants remembered; 20,000
	MaxUnknown      int           // unknown ids remembered; 65,536
	AutoMigrate     bool          // bring older databases to the present schema; otherwise they are unavailable

	BreakerFailures uint32        // failures in a row that open a tenant's breaker; 5
	BreakerTimeout  time.Duration // for which it stays open; 30 s
	MigrateTimeout  time.Duration // for one tenant's migrations; 5 min

	Logger      *slog.Logger    // discards
	Meter       metric.Meter    // none
	LabelLimit  int             // tenants with a metric label of their own, the rest is "other"; 0: no tenant label
	QueryTracer pgx.QueryTracer // none; must not record arguments
	Dial        DialFunc        // net.Dialer
	Now         func() time.Time
}

// Bounds that no deployment needs to change. Together they keep every answer about an unusable database within 5 s.
const (
	answerTimeout   = 4 * time.Second         // silence after which a connection counts as dead
	connectTimeout  = 3500 * time.Millisecond // for TCP, TLS and login, all addresses of the DSN together
	openTimeout     = 4500 * time.Millisecond // for a pool's first connection and the look at its schema
	waitTimeout     = 4500 * time.Millisecond // for a connection of a pool whose connections are in use
	leaseTimeout    = 4800 * time.Millisecond // for a lease, whatever stands in its way
	staleAfter      = time.Second             // idle time after which a connection is tried before it is handed out
	staleTimeout    = 2 * time.Second         // for that trial
	hostWait        = time.Second             // for the host's budget
	registryTimeout = 3 * time.Second         // for one question to the registry
	unknownTTL      = 10 * time.Second        // for which an unknown id is unknown
	connIdleTime    = 30 * time.Second        // sockets are scarce: an idle one is kept no longer
)

func (o Options) withDefaults() Options {
	set(&o.MaxPools, 100)
	set(&o.HardCap, 2*o.MaxPools)
	set(&o.MaxConns, 10)
	set(&o.MaxConnsPerHost, 80)
	set(&o.IdleTimeout, 5*time.Minute)
	set(&o.CacheTTL, 120*time.Second)
	set(&o.MaxRecords, 20_000)
	set(&o.MaxUnknown, 1<<16)
	set(&o.BreakerFailures, 5)
	set(&o.BreakerTimeout, 30*time.Second)
	set(&o.MigrateTimeout, 5*time.Minute)
	o.MaxRecords = max(o.MaxRecords, 2*o.HardCap)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Meter == nil {
		o.Meter = noop.Meter{}
	}
	if o.Dial == nil {
		o.Dial = dialPlain
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

func set[T int | uint32 | time.Duration](member *T, value T) {
	if *member == 0 {
		*member = value
	}
}

func (o Options) validate() error {
	switch {
	case count(o.Control != nil, o.Manager != nil, o.Single != nil) != 1:
		return errors.New("tenant router: give the control database, a tenant manager or a single tenant")
	case o.Single == nil && o.Keys == nil:
		return errors.New("tenant router: the registry needs a key ring")
	case o.MaxPools < 1, o.MaxConns < 1, o.MaxConnsPerHost < 1:
		return errors.New("tenant router: limits must be positive")
	case o.HardCap < o.MaxPools:
		return errors.New("tenant router: the hard cap is below the cap")
	}
	return nil
}

func count(conditions ...bool) int {
	n := 0
	for _, c := range conditions {
		if c {
			n++
		}
	}
	return n
}

// dialPlain dials what the operator configured, wherever that is.
func dialPlain(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext(ctx, network, address)
}
