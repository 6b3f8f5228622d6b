package sqlserver

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"fmt"
	"math"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mssql "github.com/microsoft/go-mssqldb"
	"github.com/microsoft/go-mssqldb/msdsn"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/sourcetest"
)

// liveVariable names a server that the tests below run on: sqlserver://user:password@host:port?encrypt=…, with the right to
// create databases.
const liveVariable = "TEST_SQLSERVER_DSN"

// live is a database of a test on the live server.
type live struct {
	admin  *sql.DB // on the database
	params source.Params
}

func newLive(tb testing.TB) *live {
	tb.Helper()
	dsn := os.Getenv(liveVariable)
	if dsn == "" {
		tb.Skip(liveVariable + " names no server")
	}
	config, err := msdsn.Parse(dsn)
	if err != nil {
		tb.Fatal(err)
	}
	server := sql.OpenDB(mssql.NewConnectorConfig(config))
	tb.Cleanup(func() { _ = server.Close() })
	name := "fetcher_" + strings.ToLower(rand.Text())
	for _, statement := range []string{
		"CREATE DATABASE [" + name + "]", "ALTER DATABASE [" + name + "] SET ALLOW_SNAPSHOT_ISOLATION ON",
	} {
		if _, err := server.ExecContext(context.Background(), statement); err != nil {
			tb.Fatal(err)
		}
	}
	tb.Cleanup(func() {
		_, _ = server.ExecContext(context.Background(), "ALTER DATABASE ["+name+"] SET SINGLE_USER WITH ROLLBACK IMMEDIATE; DROP DATABASE ["+name+"]")
	})
	config.Database = name
	l := &live{admin: sql.OpenDB(mssql.NewConnectorConfig(config)), params: source.Params{
		Kind: source.SQLServer, Host: config.Host, Port: int(config.Port), // #nosec G115 -- a port
		Database: name, User: config.User, Password: config.Password,
	}}
	tb.Cleanup(func() { _ = l.admin.Close() })
	return l
}

func (l *live) exec(tb testing.TB, statements ...string) {
	tb.Helper()
	for _, s := range statements {
		if _, err := l.admin.ExecContext(context.Background(), s); err != nil {
			tb.Fatalf("%v in %.200s", err, s)
		}
	}
}

// TestConformance runs the suite of all kinds on a live server.
func TestConformance(t *testing.T) { //nolint:paralleltest // it looks at memory
	if os.Getenv(liveVariable) == "" {
		t.Skip(liveVariable + " names no server")
	}
	sourcetest.Run(t, sourcetest.Backend{
		Driver:     New(),
		New:        newConformanceDatabase,
		MaxColumns: 1000, // of a row that fits a page
		Without: map[sourcetest.Feature]string{
			sourcetest.ObjectID:    "SQL Server has no such type",
			sourcetest.LargeValues: "the driver holds a value several times over while it decodes it",
		},
	})
}

func newConformanceDatabase(tb testing.TB) sourcetest.Database {
	tb.Helper()
	l := newLive(tb)
	fixtures := sourcetest.SQL{
		Exec:  l.exec,
		Quote: quoteIdent,
		Types: map[sourcetest.Type]string{
			sourcetest.Integer: "bigint", sourcetest.Decimal: "decimal(34,17)", sourcetest.Text: "nvarchar(max) COLLATE Latin1_General_BIN2", sourcetest.Date: "date",
			sourcetest.Timestamp: "datetime2(3)", sourcetest.TimestampTZ: "datetimeoffset(3)", sourcetest.UUID: "uniqueidentifier", sourcetest.Boolean: "bit",
		},
		Literal: func(typ sourcetest.Type, value string) string {
			switch typ {
			case sourcetest.Integer, sourcetest.Decimal:
				return value
			}
			return "N'" + strings.ReplaceAll(value, "'", "''") + "'"
		},
		Insert: func(table string, rows [][]string) string { // VALUES of its own takes 1,000 rows at most
			selects := make([]string, len(rows))
			for i, r := range rows {
				selects[i] = "SELECT " + strings.Join(r, ", ")
			}
			return "INSERT INTO " + table + " " + strings.Join(selects, " UNION ALL ")
		},
	}
	return sourcetest.Database{
		Params: l.params, Create: fixtures.Create, CreateView: fixtures.CreateView,
		CreateSchema: func(tb testing.TB, prefix string) string {
			tb.Helper()
			l.exec(tb, "CREATE SCHEMA "+quoteIdent(prefix))
			return prefix
		},
		Transfer: func(ctx context.Context) error {
			_, err := l.admin.ExecContext(ctx, "SET XACT_ABORT ON; BEGIN TRANSACTION; UPDATE torn_a SET n = n - 1; UPDATE torn_b SET n = n + 10; COMMIT")
			return err
		},
		Slow: func(tb testing.TB) string {
			tb.Helper()
			l.exec(tb, "CREATE VIEW slow AS SELECT CONVERT(nvarchar(20), COUNT_BIG(*)) AS v FROM sys.all_columns AS a CROSS JOIN sys.all_columns AS b CROSS JOIN sys.all_columns AS c")
			return "slow"
		},
		Running: func(tb testing.TB) []string {
			tb.Helper()
			return l.running(tb)
		},
	}
}

func (l *live) running(tb testing.TB) []string {
	tb.Helper()
	rows, err := l.admin.QueryContext(context.Background(), "SELECT t.text FROM sys.dm_exec_requests AS r JOIN sys.dm_exec_sessions AS s ON s.session_id = r.session_id "+
		"CROSS APPLY sys.dm_exec_sql_text(r.sql_handle) AS t WHERE r.database_id = DB_ID() AND s.program_name = 'fetcher'")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var out []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			tb.Fatal(err)
		}
		out = append(out, text)
	}
	if err := rows.Err(); err != nil {
		tb.Fatal(err)
	}
	return out
}

// TestLiveValues reads the golden values from tables of a live server, as far as it takes them.
func TestLiveValues(t *testing.T) {
	t.Parallel()
	l := newLive(t)
	s, err := New().Open(context.Background(), l.params, &net.Dialer{})
	if err != nil {
		t.Fatal(cause(err))
	}
	t.Cleanup(func() { _ = s.Close() })
	want := make(map[string][]string)
	for i, g := range goldens() {
		decl := typeOf(columnType{name: g.column.typ, length: g.column.length, precision: g.column.precision, scale: g.column.scale, codePage: 1252}).decl
		if g.column.typ == "timestamp" || g.column.codePage > 1252 || g.column.codePage > 0 && g.column.codePage < 1252 {
			continue // made by the server; in another code page than the literals
		}
		table := fmt.Sprintf("g%d", i)
		if _, err = l.admin.ExecContext(context.Background(), fmt.Sprintf("CREATE TABLE %s (n int PRIMARY KEY, v %s NULL)", table, decl)); err != nil {
			t.Logf("%s: %v", decl, err) // a type of newer servers
			continue
		}
		for j, v := range g.values {
			if literal, ok := liveLiteral(decl, v); ok {
				l.exec(t, fmt.Sprintf("INSERT INTO %s VALUES (%d, %s)", table, j, literal))
				want[table] = append(want[table], fmt.Sprintf(`{"v":%s}`, g.want[j]))
			}
		}
		l.exec(t, fmt.Sprintf("INSERT INTO %s VALUES (%d, NULL)", table, len(g.values)))
		want[table] = append(want[table], `{"v":null}`)
	}
	if _, err = s.Begin(context.Background(), time.Time{}); err != nil {
		t.Fatal(cause(err))
	}
	catalog, err := s.Catalog(context.Background(), source.Scope{})
	if err != nil {
		t.Fatal(cause(err))
	}
	for table, rows := range want {
		got, err := read(t, s, queryOf(t, catalog, table, []string{"v"}))
		if err != nil {
			t.Fatal(cause(err))
		}
		if diff := cmp.Diff(rows, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", table, diff)
		}
	}
}

// liveLiteral writes a golden value as T-SQL, if there is a way to.
func liveLiteral(decl string, v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return "CONVERT(" + decl + ", N'" + strings.ReplaceAll(v, "'", "''") + "')", true
	case []byte:
		return "CONVERT(" + decl + ", 0x" + hex.EncodeToString(v) + ")", true
	case []uint16:
		literal := "0x"
		for _, u := range v {
			literal += fmt.Sprintf("%02x%02x", u&0xff, u>>8)
		}
		return "CONVERT(" + decl + ", " + literal + ")", true
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return "", false
		}
		return fmt.Sprintf("%.17e", v), true
	case bool:
		if v {
			return "1", true
		}
		return "0", true
	}
	return fmt.Sprint(v), true
}
