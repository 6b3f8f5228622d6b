package tenant

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/gorm"

	"github.com/fetcherhq/fetcher/store"
)

// errDSN says that an address can't be understood. The parser's own text may quote it.
var errDSN = errors.New("tenant: the database address is malformed")

// pool is the open database of one tenant.
type pool struct {
	pgx    *pgxpool.Pool
	sql    *sql.DB
	gorm   *gorm.DB
	config *pgx.ConnConfig // as given, for connections outside the pool
	health *health

	mu        sync.Mutex
	addresses map[string]bool // connected to at least once
}

// poolConfig is what a pool is made of.
type poolConfig struct {
	dsn      string
	maxConns int
	health   *health
	dial     dialer
	tracer   pgx.QueryTracer
	refused  func() // called when the server refused the login
}

// newPool makes a pool without connecting.
func newPool(c poolConfig) (*pool, error) {
	cfg, err := pgxpool.ParseConfig(c.dsn)
	if err != nil {
		return nil, errDSN
	}
	tune(cfg.ConnConfig, c.tracer)
	p := &pool{config: cfg.ConnConfig.Copy(), health: c.health, addresses: map[string]bool{}}

	dial := c.dial
	dial.silence = answerTimeout
	dial.silent = func() { c.health.report(errSilent) }
	dial.opened = p.remember
	cfg.ConnConfig.DialFunc = dial.DialContext

	cfg.MaxConns = int32(min(c.maxConns, 1<<15)) //nolint:gosec // bounded
	cfg.MinConns, cfg.MinIdleConns = 0, 0
	cfg.MaxConnIdleTime = connIdleTime
	cfg.HealthCheckPeriod = connIdleTime / 2
	cfg.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { return c.health.mayDial() }
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		readUTC(conn)
		failed := markDirect(ctx, conn)
		if failed == nil {
			c.health.report(nil)
		}
		return failed
	}
	cfg.ShouldPing = markStale
	cfg.PrepareConn = tryStale

	if p.pgx, err = pgxpool.NewWithConfig(context.Background(), cfg); err != nil {
		return nil, errDSN
	}
	conns := &connector{Connector: stdlib.GetPoolConnector(p.pgx), pool: p.pgx, health: c.health, refused: c.refused}
	p.sql = sql.OpenDB(conns)
	p.sql.SetMaxIdleConns(0) // idle connections belong to the pgx pool
	if p.gorm, err = store.OpenWith(p.sql, rowReader{conns}); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// tune sets what every connection to a tenant's database has.
func tune(c *pgx.ConnConfig, tracer pgx.QueryTracer) {
	// Named prepared statements fail behind a pooler in transaction mode, where the next statement may run on another
	// server connection. Cached descriptions live on this side only and each execution is a single round trip of an
	// unnamed statement; parameters still have the server's types, which exec mode would guess from Go's.
	// Only rowReader asks for named ones, and only where there is no pooler.
	c.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	c.StatementCacheCapacity = 32
	c.DescriptionCacheCapacity = 128
	c.Tracer = tracer
	c.ConnectTimeout = connectTimeout / time.Duration(hosts(c))
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = product
	}
}

// hosts counts the addresses the DSN names; they are tried in turn, each with a timeout of its own.
func hosts(c *pgx.ConnConfig) int {
	type address struct {
		host string
		port uint16
	}
	all := map[address]bool{{c.Host, c.Port}: true}
	for _, f := range c.Fallbacks {
		all[address{f.Host, f.Port}] = true
	}
	return len(all)
}

// readUTC makes timestamps come in UTC rather than in the process's zone.
func readUTC(conn *pgx.Conn) {
	conn.TypeMap().RegisterType(&pgtype.Type{
		Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
	})
}

const staleKey = "fetcher.stale"

// markStale notes on a connection that it was idle long enough to be dead. pgx's own trial would go through all idle
// connections of a silent server, one timeout after the other; tryStale ends at the first.
func markStale(_ context.Context, p pgxpool.ShouldPingParams) bool {
	if p.IdleDuration > staleAfter {
		p.Conn.PgConn().CustomData()[staleKey] = true
	}
	return false
}

// tryStale lets a stale connection prove itself. A closed one is replaced without the caller's knowing; silence is
// the caller's error.
func tryStale(ctx context.Context, conn *pgx.Conn) (bool, error) {
	data := conn.PgConn().CustomData()
	if data[staleKey] == nil {
		return true, nil
	}
	delete(data, staleKey)
	trial, cancel := context.WithTimeout(ctx, staleTimeout)
	defer cancel()
	err := conn.Ping(trial)
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil:
		return false, ctx.Err()
	case trial.Err() != nil:
		return false, errors.Join(errSilent, err)
	default:
		return false, nil
	}
}

func (p *pool) remember(address string) {
	p.mu.Lock()
	p.addresses[address] = true
	p.mu.Unlock()
}

func (p *pool) uses(address string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.addresses[address]
}

// closeIdle closes up to n idle connections and returns how many it closed.
func (p *pool) closeIdle(ctx context.Context, n int) int {
	closed := 0
	for _, conn := range p.pgx.AcquireAllIdle(ctx) {
		if closed < n {
			_ = conn.Conn().Close(ctx)
			closed++
		}
		conn.Release()
	}
	return closed
}

// close closes every connection, waiting for those in use to come back.
func (p *pool) close() {
	_ = p.sql.Close()
	p.pgx.Close()
}
