package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Postgres is a running server. Its methods are safe for concurrent use.
type Postgres struct {
	cluster  cluster
	password string
	port     int
	major    int
	process  *process
	lock     *lock
	stop     sync.Once
	logger   *slog.Logger
}

// StartPostgres brings up the server of opts.Dir: it finds binaries, recovers what an earlier run left, creates the
// data on the first run and returns once the server answers. ctx bounds the start only. The server listens on one
// loopback port, the one of the last run if that is free, and asks for a password; it ends with this process.
func StartPostgres(ctx context.Context, opts PostgresOptions) (*Postgres, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	c, err := locate(ctx, opts.Dir, serverAccount())
	if err != nil {
		return nil, fmt.Errorf("embedded postgres: %w", err)
	}
	if c.home != c.dir {
		opts.Logger.Info("the server's unprivileged user can't reach the data directory; its data lies elsewhere",
			"dir", c.dir, "data", c.home)
	}
	held, err := acquireLock(c.lock())
	if err != nil {
		return nil, fmt.Errorf("embedded postgres: %s: %w", c.dir, err)
	}
	p := &Postgres{cluster: c, lock: held, logger: opts.Logger}
	if err := p.start(ctx, opts); err != nil {
		held.release()
		return nil, fmt.Errorf("embedded postgres: %w", err)
	}
	return p, nil
}

func (p *Postgres) start(ctx context.Context, opts PostgresOptions) error {
	if err := endServers(ctx, p.cluster.data(), staleSteps()); err != nil {
		return err
	}
	if err := p.cluster.discardOrphan(p.logger); err != nil {
		return err
	}
	major, err := p.cluster.major()
	if err != nil {
		return err
	}
	b, err := opts.finder(p.cluster.account, major).find(ctx)
	if err != nil {
		return err
	}
	p.major = b.major
	ctx, cancel := context.WithTimeout(ctx, opts.StartTimeout)
	defer cancel()
	if p.password, err = keptSecret(p.cluster.password()); err != nil {
		return err
	}
	if err := p.cluster.initialise(ctx, b, p.password, opts.Unsafe); err != nil {
		return err
	}
	return p.serve(ctx, b, opts)
}

// errPortTaken says that another program got hold of the port between our choice and the server's start.
var errPortTaken = errors.New("port taken")

// serve runs the server, on another port if the first choice turns out to be taken.
func (p *Postgres) serve(ctx context.Context, b binaries, opts PostgresOptions) error {
	const attempts = 5
	var err error
	for range attempts {
		if p.port, err = choosePort(p.cluster.port()); err != nil {
			return err
		}
		err = p.serveOn(ctx, b, opts)
		if !errors.Is(err, errPortTaken) {
			break
		}
		p.logger.DebugContext(ctx, "port taken, trying another", "port", p.port)
	}
	if err != nil {
		return err
	}
	return writePrivate(p.cluster.port(), []byte(strconv.Itoa(p.port)+"\n"))
}

func (p *Postgres) serveOn(ctx context.Context, b binaries, opts PostgresOptions) error {
	out, err := os.OpenFile(p.cluster.log(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("server log: %w", err)
	}
	defer func() { _ = out.Close() }() // the server has its own copy
	args := []string{"-D", p.cluster.data()}
	for name, value := range opts.settings(p.port) {
		args = append(args, "-c", name+"="+value)
	}
	// The server outlives the context of the start, hence no CommandContext with it.
	cmd := p.cluster.account.command(context.WithoutCancel(ctx), p.cluster.data(), b.postgres(), args...)
	cmd.Stdout, cmd.Stderr = out, out
	dieWithParent(cmd.SysProcAttr, opts.deathSignal())
	if p.process, err = launch(cmd); err != nil {
		return fmt.Errorf("start server: %w", err)
	}
	if err := p.awaitReady(ctx); err != nil {
		p.process.end(stopSteps(5 * time.Second)...)
		return err
	}
	return nil
}

// awaitReady returns once the server answers a query. It doesn't wait for an answer once the server has ended: on a
// port that another program took, that program may never give one.
func (p *Postgres) awaitReady(ctx context.Context) error {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-p.process.done:
			cancel()
		case <-asking.Done():
		}
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := p.ping(asking)
		if err == nil {
			return nil
		}
		if refused := new(pgconn.PgError); errors.As(err, &refused) && refused.Code == invalidPassword {
			return errors.New("server refuses the password that was kept for it")
		}
		select {
		case <-p.process.done:
			return p.startFailure()
		case <-ctx.Done():
			return fmt.Errorf("server not ready: %w (%w)", ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// invalidPassword is the SQLSTATE of a wrong password. Another program on our port may say that too; that it does
// in the moment before our server finds the port taken is not worth telling apart.
const invalidPassword = "28P01"

// ping proves that the server that answers is ours: only ours knows the password.
func (p *Postgres) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, p.DSN(superuser))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	return conn.Ping(ctx)
}

func (p *Postgres) startFailure() error {
	out, err := os.ReadFile(p.cluster.log())
	if err != nil {
		return fmt.Errorf("server ended at start: %w", p.process.err)
	}
	if strings.Contains(string(out), "could not create any TCP/IP sockets") {
		return errPortTaken
	}
	return fmt.Errorf("server ended at start: %w: %s", p.process.err, lastLines(out))
}

// DSN is the URL of a database for the superuser. It holds the password.
func (p *Postgres) DSN(database string) string {
	return Database{Name: database, User: superuser, Password: p.password, Host: p.Host(), Port: p.port}.DSN()
}

// Address is host:port of the server.
func (p *Postgres) Address() string { return net.JoinHostPort(p.Host(), strconv.Itoa(p.port)) }

// Host is the loopback address that the server listens on.
func (p *Postgres) Host() string { return "127.0.0.1" }

// Port is the port that the server listens on.
func (p *Postgres) Port() int { return p.port }

// Major is the version of Postgres, such as 15.
func (p *Postgres) Major() int { return p.major }

// PID is the process id of the server.
func (p *Postgres) PID() int { return p.process.pid }

// DataDir is where the server's data lies: in Dir, or where StartPostgres had to put it.
func (p *Postgres) DataDir() string { return p.cluster.data() }

// Done is closed when the server has ended, asked or not.
func (p *Postgres) Done() <-chan struct{} { return p.process.done }

// Stop shuts the server down: open connections are closed, data is written. It waits until ctx ends, at most 30 s,
// then stops it the hard way, which loses nothing either but makes the next start slower. Afterwards the server is
// gone in any case. It returns ErrStopped if the server had ended by itself. Calls after the first return nil.
func (p *Postgres) Stop(ctx context.Context) error {
	var err error
	p.stop.Do(func() {
		defer p.lock.release()
		if !p.process.alive() {
			err = fmt.Errorf("embedded postgres: %w", ErrStopped)
			return
		}
		patience := 30 * time.Second
		if deadline, ok := ctx.Deadline(); ok {
			patience = min(patience, max(time.Until(deadline), 0))
		}
		if took := p.process.end(stopSteps(patience)...); took > 1 {
			p.logger.WarnContext(ctx, "embedded postgres had to be stopped hard")
		}
	})
	return err
}

// Kill ends the server as a crash would: for tests of what comes after.
func (p *Postgres) Kill() {
	p.stop.Do(func() {
		defer p.lock.release()
		p.process.end(step{syscall.SIGKILL, time.Second})
	})
}

// stopSteps is Postgres' fast shutdown, then the immediate one, then the kernel's.
func stopSteps(patience time.Duration) []step {
	return []step{
		{syscall.SIGINT, patience},
		{syscall.SIGQUIT, 5 * time.Second},
		{syscall.SIGKILL, time.Second},
	}
}
