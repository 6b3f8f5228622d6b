package sourcetest

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/source"
)

// nameCase is a table with one column, and other spellings of both that mean the same.
type nameCase struct {
	table, column string
	needs         Feature
	also          []string // of the table
	alsoColumn    string
}

func nameCases() []nameCase {
	return []nameCase{
		{table: "MixedCase", column: "vAlue", also: []string{"mixedcase", "MIXEDCASE"}, alsoColumn: "VALUE"},
		{table: "select", column: "from", also: []string{"Select"}, alsoColumn: "FROM"},
		{table: "order", column: "group"},
		{table: "with space", column: "a b", alsoColumn: "A B"},
		{table: "cash$", column: "a$2", needs: DollarTables},
		{table: "cash", column: "a$1"},
		{table: "größe_表", column: "größe 列", also: []string{"GRÖßE_表"}, alsoColumn: "GRÖßE 列"},
		{table: "it's", column: "don't", needs: QuotedNames},
		{table: `quo"te`, column: `q"q`, needs: QuotedNames},
		{table: "back`tick", column: "b`b", needs: QuotedNames},
		{table: "brac]ket[", column: "b]b[", needs: QuotedNames},
		{table: `back\slash`, column: `b\b`, needs: QuotedNames},
		{table: "per%cent", column: "p%s_?", needs: QuotedNames},
	}
}

func (b Backend) testNames(t *testing.T) {
	d := b.New(t)
	cases := nameCases()
	for i, c := range cases {
		if c.needs == "" || b.has(c.needs) {
			d.Create(t, Table{Name: c.table, Columns: []Column{{c.column, Integer}}, Rows: [][]string{{strconv.Itoa(i)}, {Null}}})
		}
	}
	s, catalog := b.begin(t, d.Params)
	for i, c := range cases {
		t.Run(c.table, func(t *testing.T) { //nolint:paralleltest // one session
			if c.needs != "" {
				b.needs(t, c.needs)
			}
			b.checkName(t, s, catalog, c, strconv.Itoa(i))
		})
	}
	if _, err := catalog.Resolve("nothing"); !errors.Is(err, source.ErrTableUnknown) {
		t.Errorf("nothing: %v", err)
	}
	if c := Catalog(t, s, source.Scope{Tables: []string{"nothing"}}); len(c.Tables) != 0 {
		t.Errorf("tables for an unknown name: %v", c.Tables)
	}
}

func (b Backend) checkName(t *testing.T, s source.Session, whole *source.Catalog, c nameCase, value string) {
	t.Helper()
	if !slices.ContainsFunc(whole.Tables, func(table source.Table) bool { return table.Name == c.table }) {
		t.Error("not listed")
	}
	for _, name := range append(c.also, c.table, whole.DefaultSchema+"."+c.table) {
		targeted := Catalog(t, s, source.Scope{Tables: []string{name}})
		if len(targeted.Tables) != 1 {
			t.Errorf("targeted %s: %d tables", name, len(targeted.Tables))
		}
		for _, catalog := range []*source.Catalog{whole, targeted} {
			table, err := catalog.Resolve(name)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if column, err := table.Column(c.column); err != nil || column.Name != c.column {
				t.Errorf("%s: column %+v, %v", name, column, err)
			}
			field := c.column
			if c.alsoColumn != "" {
				field = c.alsoColumn
			}
			where := source.Condition{Field: field, Op: source.OpEq, Values: Values(value)}
			got := Read(t, s, catalog, name, []string{field}, where)
			if len(got) != 1 || !strings.HasSuffix(got[0], ":"+value+"}") {
				t.Errorf("%s: %v", name, got)
			}
		}
	}
}

// testSchemas reads tables of two schemas, one of the same name.
func (b Backend) testSchemas(t *testing.T) {
	b.needs(t, Schemas)
	d := b.New(t)
	column := []Column{{"id", Integer}}
	other := d.CreateSchema(t, "Other Schema")
	d.Create(t, Table{Name: "plain", Columns: column, Rows: [][]string{{"1"}}},
		Table{Schema: other, Name: "plain", Columns: column, Rows: [][]string{{"2"}}},
		Table{Schema: other, Name: "alone", Columns: column, Rows: [][]string{{"3"}}})
	s, catalog := b.begin(t, d.Params)
	for name, want := range map[string]string{
		"plain": "1", catalog.DefaultSchema + ".plain": "1", other + ".plain": "2", other + ".alone": "3",
		strings.ToUpper(other) + ".Alone": "3",
	} {
		if got := IDs(t, s, catalog, name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	if _, err := catalog.Resolve("alone"); !errors.Is(err, source.ErrTableUnknown) {
		t.Errorf("bare name of another schema: %v", err)
	}
	p := d.Params
	p.Schema = other
	for how, c := range map[string]*source.Catalog{
		"of the connection": Catalog(t, Open(t, b.Driver, p), source.Scope{}),
		"of the scope":      Catalog(t, s, source.Scope{Schema: other}),
	} {
		names := make([]string, len(c.Tables))
		for i, table := range c.Tables {
			names[i] = table.Name
		}
		if diff := cmp.Diff([]string{"alone", "plain"}, names); diff != "" {
			t.Errorf("schema %s (-want +got):\n%s", how, diff)
		}
	}
}

func (b Backend) testViews(t *testing.T) {
	b.needs(t, Views)
	d := b.New(t)
	d.Create(t, Table{Name: "base", Columns: []Column{{"id", Integer}, {"v", Text}}, Rows: [][]string{{"1", "a"}, {"2", "b"}}})
	d.CreateView(t, "a view", "base")
	s, catalog := b.begin(t, d.Params)
	got := Read(t, s, catalog, "a view", b.all("id", "v"), source.Condition{Field: "v", Op: source.OpEq, Values: Values(`"b"`)})
	if diff := cmp.Diff([]string{`{"id":2,"v":"b"}`}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// testWide reads a table as wide as they come.
func (b Backend) testWide(t *testing.T) {
	width := b.MaxColumns
	if width == 0 {
		width = 1500
	}
	d := b.New(t)
	table := Table{Name: "wide", Rows: make([][]string, 2)}
	want := make([]string, 2)
	names := make([]string, width)
	for i := range width {
		name := "c" + strconv.Itoa(i)
		names[i] = name
		table.Columns = append(table.Columns, Column{name, Integer})
		for row, value := range []string{strconv.Itoa(i), strconv.Itoa(-i)} {
			shown := value
			if i%2 == 1 { // some servers limit the bytes of a row, too
				value, shown = Null, "null"
			}
			table.Rows[row] = append(table.Rows[row], value)
			want[row] += `,"` + name + `":` + shown
		}
	}
	d.Create(t, table)
	s, catalog := b.begin(t, d.Params)
	got := Read(t, s, catalog, "wide", b.all(names...))
	slices.Sort(got)
	for i := range want {
		want[i] = "{" + want[i][1:] + "}"
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
