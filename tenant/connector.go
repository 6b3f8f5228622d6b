package tenant

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
)

var (
	errPoolBusy = errors.New("tenant: every connection of the pool is in use")
	errNoAnswer = fmt.Errorf("tenant: no connection: %w", context.DeadlineExceeded)
)

// connector hands a pool's connections to database/sql, with every wait bounded and every failure explained.
type connector struct {
	driver.Connector

	pool    *pgxpool.Pool
	health  *health
	refused func() // called when the server refused the login
}

// Connect returns a connection of the pool. Its errors are *problem.Error, except when ctx ended first.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	return connect(ctx, c, c.Connector.Connect)
}

// acquire is Connect for those that do without database/sql.
func (c *connector) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	return connect(ctx, c, c.pool.Acquire)
}

func connect[C any](ctx context.Context, c *connector, try func(context.Context) (C, error)) (C, error) {
	wait, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	conn, err := withinBudget(wait, try)
	if err != nil {
		err = c.explain(ctx, wait, err)
	}
	return conn, err
}

// withinBudget tries again for a moment while the host's budget is spent: a connection of the pool's own may come
// back, or another tenant's close.
func withinBudget[C any](ctx context.Context, try func(context.Context) (C, error)) (C, error) {
	deadline := time.Now().Add(hostWait)
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		conn, err := try(ctx)
		if !errors.Is(err, errHostSpent) || time.Now().After(deadline) {
			return conn, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return conn, err
		}
	}
}

func (c *connector) explain(ctx, wait context.Context, err error) error {
	var coded *problem.Error
	switch {
	case errors.As(err, &coded):
		return coded
	case errors.Is(err, errHostSpent):
		return busy(errHostSpent)
	case ctx.Err() != nil:
		return ctx.Err()
	case wait.Err() != nil && c.exhausted() && c.health.well():
		return busy(errPoolBusy)
	case wait.Err() != nil:
		err = errNoAnswer
	}
	c.health.report(err)
	if store.Refused(err) {
		c.refused()
	}
	return unavailable(store.Cause("connect to tenant database", err), time.Second)
}

func (c *connector) exhausted() bool {
	s := c.pool.Stat()
	return s.AcquiredConns() >= s.MaxConns()
}
