package oracle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sijms/go-ora/v2/network"

	"github.com/fetcherhq/fetcher/source"
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

// TestCatalog lists tables and columns as the server describes them, by three queries.
func TestCatalog(t *testing.T) {
	t.Parallel()
	f := newFake(t,
		table{testSchema, "ORDERS", []field{
			{name: "ID", typ: "NUMBER", precision: "18", scale: "0", notNull: true, key: true}, {name: "paid", typ: "NUMBER", precision: "10", scale: "2"}, {name: "Größe $", typ: "VARCHAR2", length: 400, chars: 100},
			{name: "N", typ: "NUMBER"}, {name: "F", typ: "FLOAT", precision: "63"}, {name: "NEG", typ: "NUMBER", precision: "5", scale: "-2"}, {name: "SMALL", typ: "NUMBER", precision: "2", scale: "5"},
			{name: "AT", typ: "TIMESTAMP(6) WITH TIME ZONE", scale: "6"}, {name: "DOC", typ: "CLOB"}, {name: "X", typ: "XMLTYPE", owner: "SYS"},
		}},
		table{testSchema, "orders", []field{{name: "ID", typ: "NUMBER", precision: "38", scale: "0"}}},
		table{"SALES", "ORDER", []field{{name: "ID", typ: "RAW", length: 16}}},
		table{testSchema, "GONE", nil},
	)
	s := f.session()
	c, err := s.Catalog(context.Background(), source.Scope{})
	if err != nil {
		t.Fatal(cause(err))
	}
	want := []string{
		"ORDERS", "  1 ID NUMBER(18,0) family 2 key", "  2 paid NUMBER(10,2) family 3 (10,2) null", "  3 Größe $ VARCHAR2(100) family 5 null", "  4 N NUMBER family 3 null", "  5 F FLOAT(63) family 3 null",
		"  6 NEG NUMBER(5,-2) family 3 (7,0) null", "  7 SMALL NUMBER(2,5) family 3 (5,5) null", "  8 AT TIMESTAMP(6) WITH TIME ZONE family 13 null", "  9 DOC CLOB family 5 null", "  10 X XMLTYPE family 0 null",
		"SALES.ORDER", "  1 ID RAW(16) family 15 null",
		"orders", "  1 ID NUMBER(38,0) family 3 (38,0) null",
	}
	if diff := cmp.Diff(want, summary(c)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{"ORDERS": "ORDERS", "orders": "orders", "reader.ORDERS": "", "READER.ORDERS": "ORDERS", "sales.order": "SALES.ORDER", "Orders": ""} {
		if got, err := c.Resolve(name); (err == nil) != (want != "") || err == nil && got.Name != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.Resolve("order"); err == nil {
		t.Error("a bare name found a table of another schema")
	}
	queries := 0
	for _, e := range f.log {
		if strings.Contains(e.sql, "FROM (") {
			queries++
		}
	}
	if queries != 3 || f.fetched != fetchCatalog {
		t.Errorf("%d queries, %d rows at once", queries, f.fetched)
	}
}

// TestCatalogScope narrows what the server is asked for.
func TestCatalogScope(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		schema string // of the connection
		scope  source.Scope
		where  string
		args   []string
		bare   string
		want   string // names of tables
	}{
		"all":           {bare: testSchema, want: "SALES.ORDER Sales.ORDER T"},
		"schema":        {scope: source.Scope{Schema: "sales"}, where: " AND o.owner IN (:1, :2)", args: []string{"string sales", "string SALES"}, bare: "SALES", want: "ORDER"},
		"exact schema":  {scope: source.Scope{Schema: "Sales"}, where: " AND o.owner IN (:1, :2)", args: []string{"string Sales", "string SALES"}, bare: "Sales", want: "ORDER"},
		"of connection": {schema: "SALES", where: " AND o.owner IN (:1, :2)", args: []string{"string SALES", "string SALES"}, bare: "SALES", want: "ORDER"},
		"no schema":     {schema: "NONE", where: " AND o.owner IN (:1, :2)", args: []string{"string NONE", "string NONE"}, bare: "NONE"},
		"tables": {
			scope: source.Scope{Tables: []string{"sales.order", "x."}}, where: " AND (UPPER(o.name) IN (:1, :2, :3) OR ASCIISTR(o.name) <> o.name)",
			args: []string{"string SALES.ORDER", "string ORDER", "string X."}, bare: testSchema, want: "SALES.ORDER Sales.ORDER",
		},
		"too many": {scope: source.Scope{Tables: slices.Repeat([]string{"t"}, maxNames+1)}, bare: testSchema, want: "T"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := []field{{name: "ID", typ: "NUMBER"}}
			f := newFake(t, table{testSchema, "T", id}, table{"SALES", "ORDER", id}, table{"Sales", "ORDER", id})
			s := f.session()
			s.schema = c.schema
			catalog, err := s.Catalog(context.Background(), c.scope)
			if err != nil {
				t.Fatal(cause(err))
			}
			var names []string
			for _, tab := range catalog.Tables {
				names = append(names, tab.Name)
			}
			if got := strings.Join(names, " "); got != c.want || catalog.DefaultSchema != c.bare {
				t.Errorf("%s in %s, want %s in %s", got, catalog.DefaultSchema, c.want, c.bare)
			}
			n := len(f.log)
			for i, statement := range []string{tablesSQL + c.where, keysSQL + c.where, columnsSQL + c.where + columnsOrderSQL} {
				if diff := cmp.Diff(executed{statement, c.args}, f.log[n-3+i], cmp.AllowUnexported(executed{})); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestCatalogFails tells why a catalogue can't be read.
func TestCatalogFails(t *testing.T) {
	t.Parallel()
	for _, part := range []string{tablesSQL, columnsSQL, keysSQL} {
		f := newFake(t, table{testSchema, "T", []field{{name: "ID", typ: "NUMBER"}}})
		f.handle(part, answer{fails: &network.OracleError{ErrCode: 1031}})
		_, err := f.session().Catalog(context.Background(), source.Scope{})
		wantError(t, err, source.CategoryRights, false)
	}
	empty, err := newFake(t).session().Catalog(context.Background(), source.Scope{})
	if err != nil || len(empty.Tables) != 0 {
		t.Errorf("%v, %v", empty, err)
	}
}

// TestLargeCatalog reads 5,000 tables with 60,000 columns by three queries.
func TestLargeCatalog(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("reads 60,000 columns")
	}
	tables := make([]table, 5000)
	for i := range tables {
		tables[i] = table{schema: testSchema, name: fmt.Sprintf("TABLE_%04d", i)}
		for j := range 12 {
			tables[i].fields = append(tables[i].fields, field{name: fmt.Sprintf("COLUMN_%d", j), typ: "NUMBER", precision: "12", scale: fmt.Sprint(j)})
		}
	}
	c, err := newFake(t, tables...).session().Catalog(context.Background(), source.Scope{})
	if err != nil {
		t.Fatal(cause(err))
	}
	columns := 0
	for _, tab := range c.Tables {
		columns += len(tab.Columns)
	}
	if len(c.Tables) != 5000 || columns != 60000 || c.Tables[4999].Columns[11].Type != "NUMBER(12,11)" {
		t.Errorf("%d tables, %d columns", len(c.Tables), columns)
	}
}
