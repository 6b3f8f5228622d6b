package sqlserver

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/testkit/tds"
)

// summary writes a catalogue down, a line for each column.
func summary(c *source.Catalog) []string {
	var out []string
	for _, t := range c.Tables {
		out = append(out, t.Name)
		for _, col := range t.Columns {
			line := fmt.Sprintf("  %d %s %s family %d", col.Position, col.Name, col.Type, col.Family)
			if col.Precision+col.Scale > 0 {
				line += fmt.Sprintf(" (%d,%d)", col.Precision, col.Scale)
			}
			if col.Nullable {
				line += " null"
			}
			if col.PrimaryKey {
				line += " key"
			}
			out = append(out, line)
		}
	}
	return out
}

// TestCatalog lists tables and columns as the server describes them.
func TestCatalog(t *testing.T) {
	t.Parallel()
	f := newFixture(t,
		catalogTable{schema: "dbo", name: "Orders", columns: []catalogColumn{
			{name: "id", typ: "bigint", notNull: true, key: true}, {name: "paid", typ: "decimal", precision: 10, scale: 2}, {name: "We]ird \"Name", typ: "nvarchar", length: 100, codePage: 1252},
			{name: "all", typ: "varchar", length: -1, codePage: 1252}, {name: "at", typ: "datetime2", scale: 3}, {name: "größe", typ: "money", notNull: true}, {name: "v", typ: "timestamp", notNull: true},
			{name: "where", typ: "geography", assembly: true}, {name: "any", typ: "sql_variant"}, {name: "doc", typ: "xml"}, {name: "key", typ: "uniqueidentifier"}, {name: "bin", typ: "binary", length: 16},
		}},
		catalogTable{schema: "Sales", name: "order", columns: []catalogColumn{{name: "id", typ: "int"}}},
		catalogTable{schema: "dbo", name: "empty"}, // its columns may not be read
		catalogTable{schema: "dbo", name: "partly", partly: true, readable: []int{2}, columns: []catalogColumn{{name: "secret", typ: "int"}, {name: "open", typ: "int"}}},
	)
	s := f.open()
	c, err := s.Catalog(context.Background(), source.Scope{})
	if err != nil {
		t.Fatal(cause(err))
	}
	want := []string{
		"Orders", "  1 id bigint family 2 key", "  2 paid decimal(10,2) family 3 (10,2) null", "  3 We]ird \"Name nvarchar(50) family 5 null", "  4 all varchar(max) family 5 null",
		"  5 at datetime2(3) family 12 null", "  6 größe money family 3 (19,4)", "  7 v timestamp family 15", "  8 where geography family 0 null", "  9 any sql_variant family 0 null",
		"  10 doc xml family 0 null", "  11 key uniqueidentifier family 7 null", "  12 bin binary(16) family 15 null",
		"Sales.order", "  1 id int family 2 null",
		"partly", "  1 open int family 2 null",
	}
	if diff := cmp.Diff(want, summary(c)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{"dbo.orders": "Orders", "ORDERS": "Orders", "sales.ORDER": "Sales.order", "dbo.partly": "partly"} {
		if table, err := c.Resolve(name); err != nil || table.Name != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.Resolve("order"); err == nil {
		t.Error("a bare name found a table of another schema")
	}
	if n := len(f.Requests()); n != 4 { // settings, tables, rights, columns
		t.Errorf("%d requests", n)
	}
}

// TestCatalogScope narrows what the server is asked for.
func TestCatalogScope(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		params source.Params
		scope  source.Scope
		where  string
		args   []string
		want   string // names of tables
	}{
		"all":    {where: "", want: "Sales.order order"},
		"schema": {scope: source.Scope{Schema: "sales"}, where: " AND s.name = @p1", args: []string{"@p1 nvarchar(5) = sales"}, want: "order dbo.order"},
		"tables": {
			scope: source.Scope{Tables: []string{"Sales.ORDER", "x"}},
			where: " AND (LOWER(o.name COLLATE Latin1_General_BIN2) IN (@p1, @p2, @p3) OR o.name COLLATE Latin1_General_BIN2 LIKE N'%[^ -~]%')",
			args:  []string{"@p1 nvarchar(11) = sales.order", "@p2 nvarchar(5) = order", "@p3 nvarchar(1) = x"}, want: "Sales.order",
		},
		"of connection": {params: source.Params{Schema: "Sales"}, where: " AND s.name = @p1", args: []string{"@p1 nvarchar(5) = Sales"}, want: "dbo.order order"},
		"too many":      {scope: source.Scope{Tables: strings.Split(strings.Repeat("order,", maxNames+1), ",")}, want: "order"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t,
				catalogTable{schema: "Sales", name: "order", columns: []catalogColumn{{name: "id", typ: "int"}}},
				catalogTable{schema: "dbo", name: "order", columns: []catalogColumn{{name: "id", typ: "int"}}},
			)
			s := f.open()
			s.(*session).schema = c.params.Schema
			catalog, err := s.Catalog(context.Background(), c.scope)
			if err != nil {
				t.Fatal(cause(err))
			}
			var names []string
			for _, table := range catalog.Tables {
				names = append(names, table.Name)
			}
			// The scripted server does not look at conditions: what is of another schema tells where bare names go.
			if c.scope.Schema == "" && c.params.Schema == "" {
				if got := strings.Join(names, " "); got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
			}
			for i, statement := range []string{tablesSQL + c.where, columnsSQL + c.where + columnsOrderSQL} {
				r := f.Requests()[i+1]
				if diff := cmp.Diff(statement, r.SQL); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				var args []string
				for _, p := range r.Params {
					args = append(args, p.String())
				}
				if diff := cmp.Diff(c.args, args); diff != "" {
					t.Errorf("parameters (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestSchemaName spells the default schema as the server does.
func TestSchemaName(t *testing.T) {
	t.Parallel()
	sales := []source.Table{{Schema: "Sales"}}
	for _, c := range []struct {
		only   string
		tables []source.Table
		want   string
	}{{"", sales, "dbo"}, {"sales", sales, "Sales"}, {"Sales", sales, "Sales"}, {"none", nil, "none"}, {"sales", []source.Table{{Schema: "Sales"}, {Schema: "sales"}}, "sales"}} {
		if got := schemaName(c.only, c.tables); got != c.want {
			t.Errorf("%s: got %s, want %s", c.only, got, c.want)
		}
	}
}

// TestCatalogFails tells why a catalogue can't be read.
func TestCatalogFails(t *testing.T) {
	t.Parallel()
	for _, part := range []string{tablesSQL, columnsSQL, "SET ANSI_NULLS"} {
		f := newFixture(t, numbersTable())
		f.Handle(tds.Containing(part), tds.Answer{Error: &tds.Error{Number: 229}})
		_, err := f.open().Catalog(context.Background(), source.Scope{})
		wantError(t, err, source.CategoryRights, false)
	}
	f := newFixture(t, numbersTable())
	f.Handle(tds.Statement(databaseSQL), tds.Answer{Error: &tds.Error{Number: 1205}})
	_, err := f.open().Begin(context.Background(), time.Time{})
	wantError(t, err, source.CategoryOther, true)
	f = newFixture(t, numbersTable())
	f.Handle(func(r tds.Request) bool { return r.Kind == tds.Transaction }, tds.Answer{Error: &tds.Error{Number: 3952}})
	_, err = f.open().Begin(context.Background(), time.Time{})
	wantError(t, err, source.CategoryOther, true)
}

// TestLargeCatalog reads 5,000 tables with 60,000 columns by two queries.
func TestLargeCatalog(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("reads 60,000 columns")
	}
	tables := make([]catalogTable, 5000)
	for i := range tables {
		tables[i] = catalogTable{schema: "dbo", name: fmt.Sprintf("table_%04d", i)}
		for j := range 12 {
			tables[i].columns = append(tables[i].columns, catalogColumn{name: fmt.Sprintf("column_%d", j), typ: "decimal", precision: 10, scale: j})
		}
	}
	f := newFixture(t, tables...)
	s := f.open()
	began := time.Now()
	c, err := s.Catalog(context.Background(), source.Scope{})
	if err != nil {
		t.Fatal(cause(err))
	}
	t.Logf("%d tables in %v", len(c.Tables), time.Since(began))
	columns := 0
	for _, table := range c.Tables {
		columns += len(table.Columns)
	}
	if len(c.Tables) != 5000 || columns != 60000 || c.Tables[4999].Columns[11].Type != "decimal(10,11)" {
		t.Errorf("%d tables, %d columns", len(c.Tables), columns)
	}
	if n := len(f.Requests()); n != 3 { // with the settings
		t.Errorf("%d requests", n)
	}
}
