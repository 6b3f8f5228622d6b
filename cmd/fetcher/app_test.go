package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fetcherhq/fetcher/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// The end of the process does not wait for a connection that is never given back.
func TestClosePool(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), testkit.Postgres(t).NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := closePool(ctx, pool); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("in use: %v", err)
	}
	conn.Release()
	if err := closePool(t.Context(), pool); err != nil {
		t.Errorf("given back: %v", err)
	}
}
