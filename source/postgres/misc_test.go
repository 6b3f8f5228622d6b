package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fetcherhq/fetcher/source"
)

// TestEncodings reads databases that are not in UTF-8: one is converted, the other has no encoding to convert from.
func TestEncodings(t *testing.T) {
	t.Parallel()
	super := newSuper(t)
	for encoding, row := range map[string]string{
		"LATIN1":    `{"größe":"café","doc":{"k": "é"},"list":["é"]}`,
		"SQL_ASCII": `{"größe":"caf` + "\uFFFD" + `","doc":{"k": "` + "\uFFFD" + `"},"list":["` + "\uFFFD" + `"]}`,
	} {
		name := super.Name + "_" + encoding
		super.exec(fmt.Sprintf(`CREATE DATABASE %q ENCODING '%s' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0`, name, encoding))
		in := *super
		in.Name = name
		in.DSN = in.dsn()
		raw := map[string]string{"LATIN1": "'café', '{\"k\": \"é\"}', ARRAY['é']", "SQL_ASCII": `E'caf\xe9', E'{"k": "\xe9"}', ARRAY[E'\xe9']`}[encoding]
		client := map[string]string{"LATIN1": "UTF8", "SQL_ASCII": "SQL_ASCII"}[encoding]
		in.exec("SET client_encoding = "+client, `CREATE TABLE t ("größe" text, doc json, list text[])`, "INSERT INTO t VALUES ("+raw+")")
		s, catalog := in.begun()
		if diff := cmp.Diff([]string{row}, read(t, s, catalog, "t", []string{"*"})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", encoding, diff)
		}
		if encoding == "LATIN1" {
			got := read(t, s, catalog, "t", []string{"größe"}, source.Condition{Field: "GRÖßE", Op: source.OpLike, Values: jsonValues(`"caf_"`)})
			if diff := cmp.Diff([]string{`{"größe":"café"}`}, got); diff != "" {
				t.Errorf("filter (-want +got):\n%s", diff)
			}
		}
		_ = s.Close()
	}
}

func (f *fixture) dsn() string {
	return fmt.Sprintf("postgres://%s:%s@%s/%s", f.Owner, f.Password, net.JoinHostPort(f.Host, strconv.Itoa(f.Port)), f.Name)
}

// TestMoneyOfOtherLocales renders what servers with other settings write, of which only the digits and the sign count.
func TestMoneyOfOtherLocales(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		scale int
		want  string
	}{
		{"$1,234.50", 2, `"1234.50"`}, {"-$0.05", 2, `"-0.05"`}, {"1.234,50 €", 2, `"1234.50"`}, {"($5.00)", 2, `"-5.00"`}, {"￥1,235", 0, `"1235"`}, {"-￥5", 0, `"-5"`}, {"5,000 د.ك", 3, `"5.000"`},
	} {
		r := &row{}
		got := string(r.appendText(nil, &typ{text: kindMoney, scale: c.scale}, []byte(c.text)))
		if got != c.want || r.err != nil {
			t.Errorf("%s: %s, %v", c.text, got, r.err)
		}
	}
	r := &row{}
	if got := string(r.appendText([]byte("x"), &typ{text: kindMoney, scale: 2}, []byte("$"))); got != "xnull" || r.err == nil {
		t.Errorf("no digits: %s", got)
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	server := func(code string) error { return fmt.Errorf("read: %w", &pgconn.PgError{Code: code}) }
	for _, c := range []struct {
		err       error
		opening   bool
		category  source.Category
		transient bool
	}{
		{server("28P01"), true, source.CategoryAuth, false}, {server("28000"), true, source.CategoryAuth, false}, {server("3D000"), true, source.CategoryDatabase, false},
		{server("42501"), true, source.CategoryDatabase, false}, {server("42501"), false, source.CategoryRights, false}, {server("53300"), true, source.CategoryRefused, true},
		{server("57P03"), true, source.CategoryRefused, true}, {server("57P01"), false, source.CategoryBroken, true}, {server("57P01"), true, source.CategoryRefused, true},
		{server("40P01"), false, source.CategoryOther, true}, {server("40001"), false, source.CategoryOther, true}, {server("57014"), false, source.CategoryTimeout, true},
		{server("42P01"), false, source.CategoryObject, false}, {server("42703"), false, source.CategoryObject, false}, {server("22012"), false, source.CategoryValue, false},
		{server("21000"), false, source.CategoryValue, false}, {server("P0001"), false, source.CategoryValue, false}, {server("42883"), false, source.CategoryValue, false}, {server("42883"), true, source.CategoryOther, false},
		{server("25006"), false, source.CategoryValue, false}, {server("25P03"), false, source.CategoryTimeout, true}, {server("54001"), false, source.CategoryValue, false}, {server("10.0.0.1"), false, source.CategoryOther, false},
		{server("08006"), false, source.CategoryBroken, true}, {server("08P01"), true, source.CategoryUnsupported, false}, {server("0A000"), false, source.CategoryUnsupported, false},
		{server("53200"), false, source.CategoryOther, true}, {server("55000"), false, source.CategoryOther, false}, {server("XX000"), false, source.CategoryOther, false}, {server(""), false, source.CategoryOther, false},
		{syscall.ECONNREFUSED, true, source.CategoryRefused, true}, {syscall.ECONNRESET, false, source.CategoryBroken, true}, {io.ErrUnexpectedEOF, false, source.CategoryBroken, true},
		{io.ErrUnexpectedEOF, true, source.CategoryRefused, true}, {&net.DNSError{}, true, source.CategoryDNS, true}, {errProtocol, false, source.CategoryOther, false}, {errors.New("what"), true, source.CategoryUnsupported, false},
	} {
		wantError(t, classify(context.Background(), c.err, c.opening), c.category, c.transient)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := classify(ended, io.EOF, false); !errors.Is(err, context.Canceled) || err.Transient {
		t.Errorf("cancelled: %+v", err)
	}
	late, cancel := context.WithDeadline(context.Background(), time.Unix(1, 0))
	defer cancel()
	wantError(t, classify(late, io.EOF, false), source.CategoryTimeout, true)
}

// TestAdministratorEndsSession reports the server's last words, not the broken connection that follows.
func TestAdministratorEndsSession(t *testing.T) {
	t.Parallel()
	f := newFixture(t, `CREATE VIEW endless AS SELECT pg_sleep(0.01)::text AS s, repeat('x', 10000) AS v FROM generate_series(1, 100000)`)
	s, catalog := f.begun()
	conn := f.connect()
	killed := false
	err := s.Stream(context.Background(), queryOf(t, catalog, "endless", []string{"v"}), func(source.Row) error {
		if !killed {
			killed = true
			if _, err := conn.Exec(context.Background(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND application_name = 'fetcher'`); err != nil {
				t.Error(err)
			}
		}
		return nil
	})
	wantError(t, err, source.CategoryBroken, true)
	var server *pgconn.PgError
	if !errors.As(err, &server) || server.Code != "57P01" {
		t.Errorf("cause: %v", cause(err))
	}
}

// TestValueErrors are those of the server's own evaluation, in the middle of a result.
func TestValueErrors(t *testing.T) {
	t.Parallel()
	f := newFixture(t, `CREATE VIEW fails AS SELECT 1 / (5000 - g) AS v FROM generate_series(1, 10000) g`, `CREATE TABLE fine AS SELECT 1 AS v`)
	s, catalog := f.begun()
	rows := 0
	err := s.Stream(context.Background(), queryOf(t, catalog, "fails", []string{"v"}), func(source.Row) error { rows++; return nil })
	wantError(t, err, source.CategoryValue, false)
	if rows == 0 {
		t.Error("failed before the first row")
	}
	if err == nil || err.Error() != "source: value (SQLSTATE 22012)" {
		t.Errorf("text: %v", err)
	}
}

// TestInputErrors are those of a filter's value that passed for its type, but not with the server.
func TestInputErrors(t *testing.T) {
	t.Parallel()
	s, catalog := newFixture(t, `CREATE TABLE spans (v interval)`).begun()
	far := source.Condition{Field: "v", Op: source.OpGt, Values: jsonValues(`"P999999999999Y"`)}
	err := s.Stream(context.Background(), queryOf(t, catalog, "spans", []string{"v"}, far), func(source.Row) error { return nil })
	wantError(t, err, source.CategoryInput, false)
}
