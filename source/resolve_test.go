package source_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fetcherhq/fetcher/source"
)

func catalog() *source.Catalog {
	columns := func(names ...string) []source.Column {
		out := make([]source.Column, 0, len(names))
		for i, n := range names {
			out = append(out, source.Column{Name: n, Position: i + 1})
		}
		return out
	}
	return source.NewCatalog("public", []source.Table{
		{Schema: "public", Base: "orders", Columns: columns("id", "Paid", "paid", "order")},
		{Schema: "public", Base: "Orders"},
		{Schema: "public", Base: "Größe"},
		{Schema: "sales", Base: "orders"},
		{Schema: "sales", Base: "items"},
		{Schema: "public", Base: "sales.orders"},
		{Schema: "a", Base: "b.c"},
		{Schema: "a.b", Base: "d"},
		{Schema: "x", Base: "y.z"},
		{Schema: "x.y", Base: "z"},
		{Schema: "public", Base: "x.y.z"},
	})
}

func TestNewCatalogNames(t *testing.T) {
	t.Parallel()
	tables := catalog().Tables
	names := make([]string, 0, len(tables))
	for _, table := range tables {
		names = append(names, table.Name)
	}
	want := []string{"Größe", "Orders", "a.b.c", "a.b.d", "orders", "public.sales.orders", "public.x.y.z", "sales.items", "sales.orders", "x.y.z", "x.y.z"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, schema, base string
		err                error
	}{
		{"orders", "public", "orders", nil},
		{"public.orders", "public", "orders", nil},
		{"Orders", "public", "Orders", nil},
		{"public.Orders", "public", "Orders", nil},
		{"ORDERS", "", "", source.ErrTableAmbiguous},
		{"Public.orders", "", "", source.ErrTableAmbiguous},
		{"gRÖSSE", "", "", source.ErrTableUnknown},
		{"GRÖßE", "public", "Größe", nil},
		{"sales.orders", "sales", "orders", nil},
		{"public.sales.orders", "public", "sales.orders", nil},
		{"Sales.ITEMS", "sales", "items", nil},
		{"items", "", "", source.ErrTableUnknown},
		{"a.b.c", "a", "b.c", nil},
		{"A.B.D", "a.b", "d", nil},
		{"x.y.z", "", "", source.ErrTableAmbiguous},
		{"X.y.z", "", "", source.ErrTableAmbiguous},
		{"public.x.y.z", "public", "x.y.z", nil},
		{"", "", "", source.ErrTableUnknown},
		{`"orders"`, "", "", source.ErrTableUnknown},
		{"orders; DROP TABLE orders", "", "", source.ErrTableUnknown},
	} {
		table, err := catalog().Resolve(c.name)
		if !errors.Is(err, c.err) {
			t.Errorf("%q: %v, want %v", c.name, err, c.err)
			continue
		}
		if c.err != nil {
			var named *source.NameError
			if !errors.As(err, &named) || named.Name != c.name {
				t.Errorf("%q: error doesn't tell the name: %v", c.name, err)
			}
			continue
		}
		if table.Schema != c.schema || table.Base != c.base {
			t.Errorf("%q: %s.%s", c.name, table.Schema, table.Base)
		}
	}
}

func TestColumns(t *testing.T) {
	t.Parallel()
	table, err := catalog().Resolve("orders")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		fields []string
		want   []string
		err    error
	}{
		{[]string{"*"}, []string{"id", "Paid", "paid", "order"}, nil},
		{[]string{"order", "ID"}, []string{"order", "id"}, nil},
		{[]string{"Paid", "paid"}, []string{"Paid", "paid"}, nil},
		{[]string{"PAID"}, nil, source.ErrColumnAmbiguous},
		{[]string{"id", "Id"}, nil, source.ErrColumnRepeated},
		{[]string{"id", "*"}, nil, source.ErrColumnUnknown},
		{[]string{"nothing"}, nil, source.ErrColumnUnknown},
		{[]string{}, nil, nil},
	} {
		columns, err := table.Select(c.fields)
		if !errors.Is(err, c.err) {
			t.Errorf("%q: %v, want %v", c.fields, err, c.err)
		}
		got := make([]string, 0, len(columns))
		for _, column := range columns {
			got = append(got, column.Name)
		}
		if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.fields, diff)
		}
	}
}

func TestModes(t *testing.T) {
	t.Parallel()
	for kind, c := range map[source.Kind]struct {
		fallback         string
		encrypts, others []string
	}{
		source.PostgreSQL: {"prefer", []string{"require", "verify-ca", "verify-full"}, []string{"disable", "allow", "prefer"}},
		source.MySQL:      {"preferred", []string{"true", "skip-verify"}, []string{"false", "preferred"}},
		source.Oracle:     {"disable", []string{"true", "enable", "verify", "skip-verify"}, []string{"disable", "false"}},
		source.SQLServer:  {"false", []string{"true", "strict"}, []string{"disable", "false"}},
		source.MongoDB:    {"disable", []string{"true", "enable", "insecure"}, []string{"disable", "false"}},
	} {
		if got := source.DefaultMode(kind); got != c.fallback || !kind.Valid() {
			t.Errorf("%s: default %q", kind, got)
		}
		for _, mode := range c.encrypts {
			if !source.ValidMode(kind, mode) || !source.Encrypts(kind, mode) {
				t.Errorf("%s %s: should encrypt", kind, mode)
			}
		}
		for _, mode := range append(c.others, "") {
			if source.Encrypts(kind, mode) || source.ValidMode(kind, mode) == (mode == "") {
				t.Errorf("%s %q: may stay clear", kind, mode)
			}
		}
		if source.ValidMode(kind, "REQUIRE") || source.Encrypts(kind, "nonsense") {
			t.Errorf("%s: unknown mode accepted", kind)
		}
	}
	if source.Kind("DB2").Valid() || source.DefaultMode("DB2") != "" || source.Encrypts("DB2", "") {
		t.Error("unknown kind accepted")
	}
}
