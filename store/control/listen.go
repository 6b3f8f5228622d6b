package control

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fetcherhq/fetcher/store/internal/pgerr"
)

const (
	// tenantChannel is what the trigger on tenants notifies.
	tenantChannel = "fetcher_tenants"
	// silence is how long the connection may be quiet before it is asked for a sign of life, and how long it may
	// take to give one. Twice this, and a reconnect, stay within the 5 s in which a change must be known.
	silence = 1500 * time.Millisecond
)

// ListenTenants calls fn with the id of every tenant that changes, until ctx ends or the connection is lost, and
// returns why. Once it listens it calls fn with the empty id: anything may have changed before. Calls come one at a
// time; a change is reported within moments of its commit and a dead connection is noticed within 3 s.
// It uses a connection of its own, which needs a server or a pooler in session mode. Reconnecting is the caller's.
func (d *DB) ListenTenants(ctx context.Context, fn func(id string)) (err error) {
	conn, err := d.connect(ctx)
	if err != nil {
		return pgerr.Wrap("connect to listen", err)
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), silence)
		defer cancel()
		err = errors.Join(err, pgerr.Wrap("close listener", conn.Close(end)))
	}()
	if err := within(ctx, func(ctx context.Context) error {
		_, err := conn.Exec(ctx, "LISTEN "+tenantChannel)
		return err
	}); err != nil {
		return pgerr.Wrap("listen", err)
	}
	fn("")
	return pgerr.Wrap("wait for notification", wait(ctx, conn, fn))
}

func (d *DB) connect(ctx context.Context) (*pgx.Conn, error) {
	cfg := d.pool.Config().ConnConfig
	cfg.Tracer = nil // a connection that only waits has nothing to trace
	var conn *pgx.Conn
	err := within(ctx, func(ctx context.Context) error {
		var err error
		conn, err = pgx.ConnectConfig(ctx, cfg)
		return err
	})
	return conn, err
}

func wait(ctx context.Context, conn *pgx.Conn, fn func(id string)) error {
	for {
		quiet, cancel := context.WithTimeout(ctx, silence)
		n, err := conn.WaitForNotification(quiet)
		cancel()
		switch {
		case err == nil:
			fn(n.Payload)
		case ctx.Err() != nil:
			return ctx.Err()
		case conn.IsClosed() || !errors.Is(err, context.DeadlineExceeded):
			return err
		default:
			if err := within(ctx, conn.Ping); err != nil {
				return err
			}
		}
	}
}

func within(ctx context.Context, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	return fn(ctx)
}
