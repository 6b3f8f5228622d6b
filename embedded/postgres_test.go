package embedded

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestPostgresKeepsItsDataAndAddress(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	p := start(t, PostgresOptions{Dir: dir})
	execute(t, p.DSN("postgres"), `CREATE TABLE kept AS SELECT 'ünï 🚀' AS v`)
	dsn := p.DSN("postgres")
	stop(t, p)
	if left := serversOn(p.DataDir()); len(left) > 0 {
		t.Errorf("processes left after Stop: %v", left)
	}

	p = start(t, PostgresOptions{Dir: dir})
	if diff := cmp.Diff(dsn, p.DSN("postgres")); diff != "" {
		t.Errorf("address changed (-first +second):\n%s", diff)
	}
	if got := query[string](t, dsn, `SELECT v FROM kept`); got != "ünï 🚀" {
		t.Errorf("data = %q", got)
	}
}

func TestPostgresSettings(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		opts PostgresOptions
		want map[string]string
	}{
		"default": {
			want: map[string]string{"fsync": "on", "max_connections": "200"},
		},
		"unsafe": {
			opts: PostgresOptions{Unsafe: true, MaxConnections: 30, Parameters: map[string]string{"work_mem": "5MB"}},
			want: map[string]string{"fsync": "off", "max_connections": "30", "work_mem": "5MB"},
		},
	}
	always := map[string]string{
		"listen_addresses": "127.0.0.1", "server_encoding": "UTF8", "TimeZone": "UTC",
		"password_encryption": "scram-sha-256", "unix_socket_directories": "",
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.opts.Dir = serverDir(t)
			p := start(t, tt.opts)
			got := map[string]string{}
			for _, want := range []map[string]string{always, tt.want} {
				for setting, value := range want {
					got[setting] = query[string](t, p.DSN("postgres"), "SELECT current_setting('"+setting+"')")
					if got[setting] != value {
						t.Errorf("%s = %q, want %q", setting, got[setting], value)
					}
				}
			}
		})
	}
}

func TestPostgresAsksForThePassword(t *testing.T) {
	t.Parallel()
	p := start(t, PostgresOptions{Dir: serverDir(t), Unsafe: true})
	for name, user := range map[string]*url.Userinfo{
		"wrong": url.UserPassword("postgres", "guess"), "none": url.User("postgres"),
	} {
		u, err := url.Parse(p.DSN("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		u.User = user
		_, err = pgx.Connect(t.Context(), u.String())
		var refused *pgconn.PgError
		if name == "wrong" && (!errors.As(err, &refused) || refused.Code != "28P01") {
			t.Errorf("%s password: %v, want 28P01", name, err)
		}
		if err == nil {
			t.Errorf("%s password: accepted", name)
		}
	}
	methods := query[string](t, p.DSN("postgres"),
		`SELECT string_agg(DISTINCT auth_method, ',') FROM pg_hba_file_rules`)
	if methods != "scram-sha-256" {
		t.Errorf("authentication methods = %q", methods)
	}
	for _, name := range []string{"password", "port", "server.log", "lock"} {
		info, err := os.Stat(filepath.Join(p.cluster.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
}

func TestPostgresWithoutItsPassword(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	stop(t, start(t, PostgresOptions{Dir: dir, Unsafe: true}))
	path := filepath.Join(dir, "password")
	if err := os.WriteFile(path, []byte("another\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := StartPostgres(t.Context(), PostgresOptions{Dir: dir, Unsafe: true})
	if err == nil || !strings.Contains(err.Error(), "refuses the password") {
		t.Errorf("another password: %v", err)
	}
	if err = os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, err = StartPostgres(t.Context(), PostgresOptions{Dir: dir, Unsafe: true})
	if err == nil || !strings.Contains(err.Error(), "password kept beside it is gone") {
		t.Errorf("no password: %v", err)
	}
	if left := serversOn(filepath.Join(dir, "data")); len(left) > 0 {
		t.Errorf("a failed start left processes: %v", left)
	}
}

func TestPostgresTwoAtOnce(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	a := start(t, PostgresOptions{Dir: dir, Unsafe: true})
	b := start(t, PostgresOptions{Dir: serverDir(t), Unsafe: true})
	execute(t, a.DSN("postgres"), `CREATE TABLE only_in_a ()`)
	if query[bool](t, b.DSN("postgres"), `SELECT to_regclass('only_in_a') IS NOT NULL`) {
		t.Error("the second server shows data of the first")
	}
	_, err := StartPostgres(t.Context(), PostgresOptions{Dir: dir})
	if !errors.Is(err, ErrInUse) {
		t.Errorf("second start on one directory: %v, want ErrInUse", err)
	}
	if err := RemovePostgres(t.Context(), dir); !errors.Is(err, ErrInUse) {
		t.Errorf("removal of a directory in use: %v, want ErrInUse", err)
	}
	if query[int](t, a.DSN("postgres"), `SELECT 1`) != 1 {
		t.Error("the first server was disturbed")
	}
}

func TestPostgresTakesAnotherPortWhenItsOwnIsTaken(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	p := start(t, PostgresOptions{Dir: dir, Unsafe: true})
	before := p.Port()
	stop(t, p)
	thief := listenOn(t, p.Address())
	defer func() { _ = thief.Close() }()
	p = start(t, PostgresOptions{Dir: dir, Unsafe: true})
	if p.Port() == before {
		t.Errorf("port %d is somebody else's", before)
	}
	if query[int](t, p.DSN("postgres"), `SELECT 1`) != 1 {
		t.Error("no answer")
	}
}

func TestPostgresLosesTheRaceForAPort(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	p := start(t, PostgresOptions{Dir: dir, Unsafe: true})
	stop(t, p)
	thief := listenOn(t, p.Address())
	defer func() { _ = thief.Close() }()
	// Straight onto the taken port, as if it had been free when it was chosen.
	opts, err := PostgresOptions{Dir: dir, Unsafe: true, NoDownload: true}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	b, err := opts.finder(serverAccount(), 0).find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	loser := &Postgres{cluster: p.cluster, password: p.password, port: p.port, logger: opts.Logger}
	if err := loser.serveOn(t.Context(), b, opts); !errors.Is(err, errPortTaken) {
		t.Errorf("start on a taken port: %v, want errPortTaken", err)
	}
}

func TestPostgresDoneAndStopWhenItEndsByItself(t *testing.T) {
	t.Parallel()
	p := start(t, PostgresOptions{Dir: serverDir(t), Unsafe: true})
	if err := syscall.Kill(p.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("Done isn't closed")
	}
	if err := p.Stop(t.Context()); !errors.Is(err, ErrStopped) {
		t.Errorf("Stop: %v, want ErrStopped", err)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Errorf("second Stop: %v", err)
	}
}

func TestPostgresStopIsBounded(t *testing.T) {
	t.Parallel()
	p := start(t, PostgresOptions{Dir: serverDir(t), Unsafe: true})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if left := serversOn(p.DataDir()); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
}

func TestPostgresStartEndsWithItsContext(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for len(globbed(dir, stagingPrefix+"*")) == 0 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	_, err := StartPostgres(ctx, PostgresOptions{Dir: dir, NoDownload: true})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("start: %v, want context.Canceled", err)
	}
	if left := globbed(dir, stagingPrefix+"*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	start(t, PostgresOptions{Dir: dir, Unsafe: true})
}

func TestPostgresIsOutOfReachOfTheTerminal(t *testing.T) {
	t.Parallel()
	p := start(t, PostgresOptions{Dir: serverDir(t), Unsafe: true})
	group, err := syscall.Getpgid(p.PID())
	if err != nil {
		t.Fatal(err)
	}
	if group == syscall.Getpgrp() {
		t.Error("a Ctrl-C would reach the server before us")
	}
}

func TestPostgresRemovesWhatItMade(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	p := start(t, PostgresOptions{Dir: dir, Unsafe: true})
	stop(t, p)
	if err := RemovePostgres(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	for _, path := range append(standIns(dir), dir) {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("%s is still there (%v)", path, err)
		}
	}
	if err := RemovePostgres(t.Context(), dir); err != nil {
		t.Errorf("removing nothing: %v", err)
	}
}

func TestPostgresWithoutDirectory(t *testing.T) {
	t.Parallel()
	if _, err := StartPostgres(t.Context(), PostgresOptions{}); err == nil || !strings.Contains(err.Error(), "directory") {
		t.Errorf("error = %v", err)
	}
}
