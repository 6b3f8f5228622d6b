package oracle

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	oracle "github.com/sijms/go-ora/v2"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/sourcetest"
)

// liveVariable names a server that the tests below run on: oracle://user:password@host:port/service, whose user may create
// and drop users and look at V$SESSION and V$SQL.
const liveVariable = "TEST_ORACLE_DSN"

// live is a schema of a test on the live server.
type live struct {
	admin  *sql.DB // who made it
	params source.Params
}

func newLive(tb testing.TB) *live {
	tb.Helper()
	dsn := os.Getenv(liveVariable)
	if dsn == "" {
		tb.Skip(liveVariable + " names no server")
	}
	config, err := oracle.ParseConfig(dsn)
	if err != nil {
		tb.Fatal(err)
	}
	l := &live{admin: sql.OpenDB(oracle.NewConnector(dsn)), params: source.Params{
		Kind: source.Oracle, Host: config.Servers[0].Addr, Port: config.Servers[0].Port, Database: config.ServiceName,
	}}
	tb.Cleanup(func() { _ = l.admin.Close() })
	l.params.User, l.params.Password = l.user(tb, "FETCHER_"), "Pw1_"+rand.Text()[:20]
	l.exec(tb, "ALTER USER "+l.params.User+" IDENTIFIED BY \""+l.params.Password+"\"")
	return l
}

// user makes a user, which is a schema as well, that goes away with the test.
func (l *live) user(tb testing.TB, prefix string) string {
	tb.Helper()
	name := strings.ToUpper(prefix + rand.Text()[:12])
	l.exec(tb, "CREATE USER \""+name+"\" IDENTIFIED BY \"Pw1_"+rand.Text()[:20]+"\" QUOTA UNLIMITED ON USERS DEFAULT TABLESPACE USERS", "GRANT CREATE SESSION TO \""+name+"\"")
	tb.Cleanup(func() { _, _ = l.admin.ExecContext(context.Background(), "DROP USER \""+name+"\" CASCADE") })
	return name
}

func (l *live) exec(tb testing.TB, statements ...string) {
	tb.Helper()
	for _, s := range statements {
		if _, err := l.admin.ExecContext(context.Background(), s); err != nil {
			tb.Fatalf("%v in %.200s", err, s)
		}
	}
}

// inSchema runs statements with the test's schema as the current one.
func (l *live) inSchema(tb testing.TB, statements ...string) {
	tb.Helper()
	conn, err := l.admin.Conn(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	all := append([]string{
		`ALTER SESSION SET CURRENT_SCHEMA = "` + l.params.User + `"`,
		`ALTER SESSION SET NLS_DATE_FORMAT = 'SYYYY-MM-DD"T"HH24:MI:SS' NLS_TIMESTAMP_FORMAT = 'SYYYY-MM-DD"T"HH24:MI:SS.FF9' NLS_TIMESTAMP_TZ_FORMAT = 'SYYYY-MM-DD"T"HH24:MI:SS.FF9TZH:TZM' TIME_ZONE = '+00:00'`,
	}, statements...)
	for _, s := range all {
		if _, err := conn.ExecContext(context.Background(), s); err != nil {
			tb.Fatalf("%v in %.200s", err, s)
		}
	}
}

func mustQuote(name string) string {
	quoted, err := quoteIdent(name)
	if err != nil {
		panic(err)
	}
	return quoted
}

// TestConformance runs the suite of all kinds on a live server.
func TestConformance(t *testing.T) { //nolint:paralleltest // it looks at memory
	if os.Getenv(liveVariable) == "" {
		t.Skip(liveVariable + " names no server")
	}
	sourcetest.Run(t, sourcetest.Backend{
		Driver: New(), New: newConformanceDatabase, MaxColumns: 1000,
		Without: map[sourcetest.Feature]string{
			sourcetest.ObjectID: "Oracle has no such type", sourcetest.UUID: "Oracle has no such type", sourcetest.Boolean: "only since 23ai",
			sourcetest.EmptyText: "an empty text is null to Oracle", sourcetest.QuotedNames: "Oracle has no names with quotes",
			sourcetest.FlatValues: "the driver holds a value as a whole", sourcetest.Date: "Oracle's DATE has a time",
		},
	})
}

func newConformanceDatabase(tb testing.TB) sourcetest.Database {
	tb.Helper()
	l := newLive(tb)
	fixtures := sourcetest.SQL{
		Exec:  l.inSchema,
		Quote: mustQuote,
		Types: map[sourcetest.Type]string{
			sourcetest.Integer: "NUMBER(19,0)", sourcetest.Decimal: "NUMBER(34,17)", sourcetest.Text: "VARCHAR2(4000)",
			sourcetest.Timestamp: "TIMESTAMP(3)", sourcetest.TimestampTZ: "TIMESTAMP(3) WITH TIME ZONE",
		},
		Literal: func(typ sourcetest.Type, value string) string {
			switch typ {
			case sourcetest.Integer, sourcetest.Decimal:
				return value
			case sourcetest.Timestamp:
				return "TO_TIMESTAMP('" + value + "', 'YYYY-MM-DD\"T\"HH24:MI:SS.FF')"
			case sourcetest.TimestampTZ:
				return "TO_TIMESTAMP_TZ('" + strings.TrimSuffix(value, "Z") + "+00:00', 'YYYY-MM-DD\"T\"HH24:MI:SS.FFTZH:TZM')"
			}
			return "'" + strings.ReplaceAll(value, "'", "''") + "'"
		},
		Insert: func(table string, rows [][]string) string {
			selects := make([]string, len(rows))
			for i, r := range rows {
				selects[i] = "SELECT " + strings.Join(r, ", ") + " FROM DUAL"
			}
			return "INSERT INTO " + table + " " + strings.Join(selects, " UNION ALL ")
		},
	}
	return sourcetest.Database{
		Params: l.params, Create: fixtures.Create, CreateView: fixtures.CreateView,
		CreateSchema: func(tb testing.TB, prefix string) string {
			tb.Helper()
			name := l.user(tb, prefix)
			l.exec(tb, `GRANT SELECT ANY TABLE TO "`+l.params.User+`"`)
			return name
		},
		Transfer: func(ctx context.Context) error {
			schema := mustQuote(l.params.User)
			_, err := l.admin.ExecContext(ctx, "BEGIN UPDATE "+schema+`."torn_a" SET "n" = "n" - 1; UPDATE `+schema+`."torn_b" SET "n" = "n" + 10; COMMIT; END;`)
			return err
		},
		Slow: func(tb testing.TB) string {
			tb.Helper()
			l.inSchema(tb, `CREATE VIEW "slow" AS SELECT TO_CHAR(COUNT(*)) AS "v" FROM (SELECT 1 FROM DUAL CONNECT BY LEVEL < 100000) a, (SELECT 1 FROM DUAL CONNECT BY LEVEL < 1000000) b`)
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
	rows, err := l.admin.QueryContext(context.Background(), "SELECT q.sql_text FROM v$session s JOIN v$sql q ON q.sql_id = s.sql_id AND q.child_number = s.sql_child_number "+
		"WHERE s.status = 'ACTIVE' AND s.username = :1", l.params.User)
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

// TestLiveValues reads literals of every type from a live server. They are the ones of which a person can tell the JSON.
func TestLiveValues(t *testing.T) {
	t.Parallel()
	l := newLive(t)
	s, err := New().Open(context.Background(), l.params, &net.Dialer{})
	if err != nil {
		t.Fatal(cause(err))
	}
	t.Cleanup(func() { _ = s.Close() })
	want := make(map[string][]string)
	for i, c := range liveValues() {
		name := fmt.Sprintf("G%d", i)
		if _, err = l.admin.ExecContext(context.Background(), fmt.Sprintf(`CREATE TABLE "%s"."%s" (N NUMBER(9,0), V %s)`, l.params.User, name, c.decl)); err != nil {
			t.Logf("%s: %v", c.decl, err) // a type of newer servers
			continue
		}
		for j := 0; j < len(c.pairs); j += 2 {
			l.inSchema(t, fmt.Sprintf("INSERT INTO %s VALUES (%d, %s)", name, j, c.pairs[j]))
			want[name] = append(want[name], `{"V":`+c.pairs[j+1]+`}`)
		}
		l.inSchema(t, fmt.Sprintf("INSERT INTO %s VALUES (1000, NULL)", name))
		want[name] = append(want[name], `{"V":null}`)
	}
	if _, err = s.Begin(context.Background(), time.Time{}); err != nil {
		t.Fatal(cause(err))
	}
	catalog, err := s.Catalog(context.Background(), source.Scope{})
	if err != nil {
		t.Fatal(cause(err))
	}
	for name, rows := range want {
		got, err := read(t, s, queryOf(t, catalog, name, []string{"V"}))
		if err != nil {
			t.Fatal(cause(err))
		}
		if diff := cmp.Diff(rows, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// liveValue is a type with literals and the JSON of each.
type liveValue struct {
	decl  string
	pairs []string
}

func liveValues() []liveValue {
	return []liveValue{
		{"NUMBER(18,0)", []string{"-999999999999999999", "-999999999999999999", "0", "0", "9007199254740993", "9007199254740993"}},
		{"NUMBER(38,0)", []string{strings.Repeat("9", 38), `"` + strings.Repeat("9", 38) + `"`}},
		{"NUMBER(10,2)", []string{"10.5", `"10.50"`, "0", `"0.00"`, "-99999999.99", `"-99999999.99"`}},
		{"NUMBER", []string{"0.1", `"0.1"`, "-0.0000000001", `"-0.0000000001"`, "9007199254740993.1", `"9007199254740993.1"`}},
		{"FLOAT", []string{"0.1", `"0.1"`}},
		{"BINARY_FLOAT", []string{"0.7f", "0.7", "0.1f", "0.1", "BINARY_FLOAT_NAN", `"NaN"`, "-BINARY_FLOAT_INFINITY", `"-Infinity"`}},
		{"BINARY_DOUBLE", []string{"0.1d", "0.1", "1e300d", "1e+300", "BINARY_DOUBLE_NAN", `"NaN"`, "BINARY_DOUBLE_INFINITY", `"Infinity"`}},
		{"DATE", []string{"'2024-02-29T10:00:00'", `"2024-02-29T10:00:00"`, "'-0044-03-15T10:00:00'", `"0044-03-15T10:00:00 BC"`, "'9999-12-31T23:59:59'", `"9999-12-31T23:59:59"`}},
		{"TIMESTAMP(9)", []string{"'2024-01-31T10:00:00.500000000'", `"2024-01-31T10:00:00.5"`, "'2024-01-31T10:00:00.000000001'", `"2024-01-31T10:00:00.000000001"`}},
		{"TIMESTAMP(6) WITH TIME ZONE", []string{"'2024-01-31T10:00:00.500000000+02:00'", `"2024-01-31T10:00:00.5+02:00"`, "TIMESTAMP '2024-01-31 10:00:00 Europe/Berlin'", `"2024-01-31T10:00:00+01:00"`}},
		{"TIMESTAMP(3) WITH LOCAL TIME ZONE", []string{"TIMESTAMP '2024-01-31 10:00:00.125 +02:00'", `"2024-01-31T08:00:00.125Z"`}},
		{"INTERVAL YEAR(4) TO MONTH", []string{"INTERVAL '1-2' YEAR TO MONTH", `"P1Y2M"`, "INTERVAL '-1-2' YEAR TO MONTH", `"P-1Y-2M"`}},
		{"INTERVAL DAY(9) TO SECOND(9)", []string{"INTERVAL '3 04:05:06.7' DAY TO SECOND", `"P3DT4H5M6.7S"`, "INTERVAL '-0 00:00:00.5' DAY TO SECOND", `"PT-0.5S"`}},
		{"VARCHAR2(100)", []string{"'abc '", `"abc "`}}, {"CHAR(5)", []string{"'abc'", `"abc  "`}}, {"NVARCHAR2(100)", []string{`UNISTR('\65E5\672C')`, `"日本"`}},
		{"CLOB", []string{"'abc'", `"abc"`, "EMPTY_CLOB()", `""`}}, {"NCLOB", []string{`UNISTR('\65E5\672C')`, `"日本"`}}, {"LONG", []string{"'abc'", `"abc"`}},
		{"RAW(16)", []string{"HEXTORAW('00FF')", `"AP8="`}}, {"BLOB", []string{"HEXTORAW('00FF')", `"AP8="`, "EMPTY_BLOB()", `""`}},
		{"XMLTYPE", []string{"XMLTYPE('<a/>')", `"<a/>"`}}, {"JSON", []string{`JSON('{"b":1.5,"a":null}')`, `{"b":1.5,"a":null}`}}, {"BOOLEAN", []string{"TRUE", "true", "FALSE", "false"}},
	}
}
