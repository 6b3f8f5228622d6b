package store_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/testkit"
)

func TestUnusableDatabaseIsToldWithoutItsWords(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := listener.Addr().String()
	if err = listener.Close(); err != nil {
		t.Fatal(err)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	good, err := pgx.ParseConfig(testkit.Postgres(t).NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	wrong := good.Copy()
	wrong.Password = "canary-password"
	missing := good.Copy()
	missing.Database = "canary_database"

	for name, test := range map[string]struct {
		config *pgx.ConnConfig
		says   string
	}{
		"nobody listens":   {parse(t, "postgres://canary-user:canary-password@"+closed+"/canary"), "refused"},
		"silence":          {parse(t, "postgres://canary-user:canary-password@"+silent.Addr().String()+"/canary"), "timeout"},
		"unknown name":     {parse(t, "postgres://canary-user:canary-password@canary.invalid/canary"), "dns"},
		"wrong password":   {wrong, "login (SQLSTATE 28P01)"},
		"no such database": {missing, "database (SQLSTATE 3D000)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := stdlib.OpenDB(*test.config)
			defer func() { _ = db.Close() }()
			g, err := store.Open(db)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, err = store.NewJobs(g).Get(ctx, uuid.New())
			var coded *problem.Error
			if !errors.As(err, &coded) || coded.Code != problem.TenantUnavailable || coded.RetryAfter <= 0 {
				t.Fatalf("got %v", err)
			}
			if !store.Unavailable(err) || store.Refused(err) != (name == "wrong password") {
				t.Errorf("unavailable %v, refused %v", store.Unavailable(err), store.Refused(err))
			}
			if text := err.Error(); !strings.Contains(text, test.says) {
				t.Errorf("%q does not say %q", text, test.says)
			}
			for _, word := range []string{"canary", "127.0.0.1", good.User, "failed to connect"} {
				if strings.Contains(err.Error(), word) {
					t.Errorf("%q repeats %q", err, word)
				}
			}
		})
	}
}

func TestStatementErrorsKeepTheirCauseAndLoseItsWords(t *testing.T) {
	t.Parallel()
	s := store.NewConnections(newDB(t))
	c := newConnection("canary\x00")
	err := s.Create(t.Context(), c)
	var cause *pgconn.PgError
	if !errors.As(err, &cause) || cause.Code != "22021" {
		t.Fatalf("got %v", err)
	}
	if got := err.Error(); got != "create connection: statement (SQLSTATE 22021)" {
		t.Errorf("got %q", got)
	}
	if store.Unavailable(err) || problem.CodeOf(err) != problem.Internal {
		t.Errorf("unavailable %v, code %s", store.Unavailable(err), problem.CodeOf(err))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Get(ctx, c.ID); !errors.Is(err, context.Canceled) || store.Unavailable(err) {
		t.Errorf("a caller that left: %v", err)
	}
}

func parse(t *testing.T, dsn string) *pgx.ConnConfig {
	t.Helper()
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}
