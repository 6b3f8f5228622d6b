package embedded

import (
	"context"
	_ "embed" // sample.sql
	"fmt"

	"github.com/jackc/pgx/v5"
)

//go:embed sample.sql
var sampleSQL string

const (
	// SampleDatabase is the name of the sample database.
	SampleDatabase = "sample"
	// SampleUser is the role that owns it.
	SampleUser = "sample_user"
	// SampleRows is the number of rows in the sample's largest table, transactions.
	SampleRows = 200_000

	sampleKind = "POSTGRESQL"
	// sampleMark is the comment of a database that holds the sample as it is now.
	sampleMark = "fetcher sample 1"
)

// CreateSample makes sure that the sample database is there, with its data, and returns how to connect to it. Its
// user owns it and may create schemas and databases. Data that is there already is left alone.
func (p *Postgres) CreateSample(ctx context.Context) (SampleInfo, error) {
	d, err := p.EnsureDatabase(ctx, SampleDatabase, SampleUser, RoleCreateDB)
	if err != nil {
		return SampleInfo{}, fmt.Errorf("sample: %w", err)
	}
	if err := FillSample(ctx, d.DSN()); err != nil {
		return SampleInfo{}, err
	}
	return SampleInfo{
		Type: sampleKind, Host: d.Host, Port: d.Port,
		DatabaseName: d.Name, UserName: d.User, Password: d.Password,
	}, nil
}

// FillSample creates the sample's schemas, tables and rows in the database at dsn, all or nothing, unless they are
// there. The role must own the database. Every call anywhere makes the same rows.
func FillSample(ctx context.Context, dsn string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("sample: connect: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return fillOnce(ctx, tx) }); err != nil {
		return fmt.Errorf("sample: %w", err)
	}
	return nil
}

// fillOnce writes mark and data in one transaction; the lock keeps two callers apart until the first has committed.
func fillOnce(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext($1))`, sampleMark); err != nil {
		return err
	}
	var name, mark string
	const current = `SELECT current_database(), coalesce(shobj_description(oid, 'pg_database'), '')
		FROM pg_database WHERE datname = current_database()`
	if err := tx.QueryRow(ctx, current).Scan(&name, &mark); err != nil {
		return err
	}
	if mark == sampleMark {
		return nil
	}
	statements := []string{
		`SET LOCAL search_path = public; SET LOCAL timezone = 'UTC'`,
		sampleSQL,
		"COMMENT ON DATABASE " + pgx.Identifier{name}.Sanitize() + " IS '" + sampleMark + "'",
	}
	for _, statement := range statements {
		if _, err := tx.Conn().PgConn().Exec(ctx, statement).ReadAll(); err != nil {
			return err
		}
	}
	return nil
}
