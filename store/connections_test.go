package store_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
)

func newConnection(name string) *store.Connection {
	return &store.Connection{
		ID: uuid.Must(uuid.NewV7()), ConfigName: name, Kind: "POSTGRESQL", Host: "db.example.com", Port: 5432,
		DatabaseName: "sales", UserName: "reader", PasswordSealed: []byte{0, 1, 0xff}, KeyVersion: 1,
	}
}

func TestConnectionReadsBackAsWritten(t *testing.T) {
	t.Parallel()
	s := store.NewConnections(newDB(t))
	minimal := newConnection("minimal")
	full := newConnection("full")
	full.ProductName, full.Schema, full.SSLMode = new("crm"), new("Ventes été"), new("verify-full")
	full.SSLCASealed, full.SSLCertSealed, full.SSLKeySealed = []byte("ca"), []byte("cert"), []byte("key")
	full.Metadata = []byte("{\"b\" : 1.10,\n \"a\":\"\\u0000\\ud800 \", \"n\":12345678901234567890.5}")
	full.CreatedAt = time.Date(2025, 2, 3, 4, 5, 6, 789000, time.UTC)
	for _, c := range []*store.Connection{minimal, full} {
		if err := s.Create(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		got, err := s.Get(t.Context(), c.ID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, got); diff != "" {
			t.Errorf("%s (-created +read):\n%s", c.ConfigName, diff)
		}
		if c.Revision != 1 || c.CreatedAt.IsZero() || !c.UpdatedAt.Equal(c.CreatedAt) {
			t.Errorf("%s: revision %d, created %v, updated %v", c.ConfigName, c.Revision, c.CreatedAt, c.UpdatedAt)
		}
	}
}

func TestConnectionNameIsTakenWhileItLives(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	s := store.NewConnections(db)
	first := newConnection("orders")
	if err := s.Create(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := s.Create(t.Context(), newConnection("orders")); problem.CodeOf(err) != problem.NameTaken {
		t.Fatalf("same name: %v", err)
	}
	if err := s.Create(t.Context(), newConnection("Orders")); err != nil {
		t.Fatalf("names are case-sensitive: %v", err)
	}
	if err := db.Exec("UPDATE connections SET deleted_at = now() WHERE id = ?", first.ID).Error; err != nil {
		t.Fatal(err)
	}
	if err := s.Create(t.Context(), newConnection("orders")); err != nil {
		t.Fatalf("the name of a deleted connection: %v", err)
	}
	if _, err := s.Get(t.Context(), first.ID); problem.CodeOf(err) != problem.NotFoundInTenant {
		t.Fatalf("a deleted connection: %v", err)
	}
}

func TestUnknownIDsAreToldInTheSameWords(t *testing.T) {
	t.Parallel()
	db, other := newDB(t), newDB(t)
	foreign := newConnection("foreign")
	if err := store.NewConnections(other).Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	_, unknown := store.NewConnections(db).Get(t.Context(), uuid.New())
	_, theirs := store.NewConnections(db).Get(t.Context(), foreign.ID)
	if diff := cmp.Diff(problem.New(problem.NotFoundInTenant, "connection not found"), unknown); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(unknown, theirs); diff != "" {
		t.Error(diff)
	}
	_, job := store.NewJobs(db).Get(t.Context(), foreign.ID)
	if diff := cmp.Diff(problem.New(problem.NotFoundInTenant, "job not found"), job); diff != "" {
		t.Error(diff)
	}
}

func TestByNames(t *testing.T) {
	t.Parallel()
	s := store.NewConnections(newDB(t))
	for _, name := range []string{"b", "a", "Z", `q"u\o{t,e}`} {
		if err := s.Create(t.Context(), newConnection(name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ ask, want []string }{
		{nil, []string{}},
		{[]string{"a", "nobody", "Z", "a"}, []string{"Z", "a"}},
		{[]string{`q"u\o{t,e}`, "b", "A"}, []string{"b", `q"u\o{t,e}`}},
	} {
		got, err := s.ByNames(t.Context(), test.ask)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, names(got)); diff != "" {
			t.Errorf("%q: %s", test.ask, diff)
		}
	}
}

func names(list []store.Connection) []string {
	out := make([]string, 0, len(list))
	for _, c := range list {
		out = append(out, c.ConfigName)
	}
	return out
}

func TestListConnections(t *testing.T) {
	t.Parallel()
	s := store.NewConnections(newDB(t))
	day := func(d int) time.Time { return time.Date(2025, 1, d, 12, 0, 0, 0, time.UTC) }
	for i, c := range []struct {
		name, kind string
		product    *string
		metadata   string
		created    time.Time
	}{
		{"one", "POSTGRESQL", new("crm"), `{"team":"a","level":5,"on":true,"nested":{"x.y":"z","deep":{"k":"v"}}}`, day(1)},
		{"two", "MYSQL", new("crm"), `{"team":"b","level":"5","list":["a"],"none":null}`, day(2)},
		{"three", "POSTGRESQL", nil, `{"team":"a","level":5.0,"nested":"deep"}`, day(2)},
		{"four", "ORACLE", new("erp"), "", day(3)},
	} {
		row := newConnection(c.name)
		row.ID = uuid.UUID{15: byte(i)} // ties are broken by id
		row.Kind, row.ProductName, row.CreatedAt = c.kind, c.product, c.created
		if c.metadata != "" {
			row.Metadata = []byte(c.metadata)
		}
		if err := s.Create(t.Context(), row); err != nil {
			t.Fatal(err)
		}
	}
	match := func(value string, path ...string) []store.MetadataMatch {
		return []store.MetadataMatch{{Path: path, Value: value}}
	}
	for name, test := range map[string]struct {
		filter store.ConnectionFilter
		want   []string
		total  int64
	}{
		"all, oldest first": {store.ConnectionFilter{}, []string{"one", "two", "three", "four"}, 4},
		"newest first":      {store.ConnectionFilter{Page: store.Page{Desc: true}}, []string{"four", "three", "two", "one"}, 4},
		"first page":        {store.ConnectionFilter{Page: store.Page{Number: 1, Limit: 3}}, []string{"one", "two", "three"}, 4},
		"second page":       {store.ConnectionFilter{Page: store.Page{Number: 2, Limit: 3}}, []string{"four"}, 4},
		"past the end":      {store.ConnectionFilter{Page: store.Page{Number: 3, Limit: 3}}, []string{}, 4},
		"window, both ends inside": {store.ConnectionFilter{Window: store.Window{Start: day(2), End: day(3)}},
			[]string{"two", "three", "four"}, 3},
		"window, a moment short": {store.ConnectionFilter{Window: store.Window{
			Start: day(1).Add(time.Microsecond), End: day(3).Add(-time.Microsecond)}}, []string{"two", "three"}, 2},
		"product":             {store.ConnectionFilter{Product: new("crm")}, []string{"one", "two"}, 2},
		"unassigned":          {store.ConnectionFilter{Unassigned: true}, []string{"three"}, 1},
		"kind":                {store.ConnectionFilter{Kind: new("POSTGRESQL")}, []string{"one", "three"}, 2},
		"unknown kind":        {store.ConnectionFilter{Kind: new("X' OR 1=1")}, []string{}, 0},
		"metadata string":     {store.ConnectionFilter{Metadata: match("a", "team")}, []string{"one", "three"}, 2},
		"number and its text": {store.ConnectionFilter{Metadata: match("5", "level")}, []string{"one", "two"}, 2},
		"number as written":   {store.ConnectionFilter{Metadata: match("5.0", "level")}, []string{"three"}, 1},
		"boolean":             {store.ConnectionFilter{Metadata: match("true", "on")}, []string{"one"}, 1},
		"nested":              {store.ConnectionFilter{Metadata: match("v", "nested", "deep", "k")}, []string{"one"}, 1},
		"dot in a name":       {store.ConnectionFilter{Metadata: match("z", "nested", "x.y")}, []string{"one"}, 1},
		"dot is not a step":   {store.ConnectionFilter{Metadata: match("z", "nested", "x", "y")}, []string{}, 0},
		"element of an array": {store.ConnectionFilter{Metadata: match("a", "list")}, []string{}, 0},
		"null":                {store.ConnectionFilter{Metadata: match("null", "none")}, []string{}, 0},
		"NUL":                 {store.ConnectionFilter{Metadata: match("\x00", "te\x00am")}, []string{}, 0},
		"quotes":              {store.ConnectionFilter{Metadata: match(`a"}',{`, `\`)}, []string{}, 0},
		"two entries": {store.ConnectionFilter{Metadata: append(match("a", "team"), match("5", "level")...)},
			[]string{"one"}, 1},
		"everything": {store.ConnectionFilter{Product: new("crm"), Kind: new("MYSQL"), Metadata: match("b", "team"),
			Window: store.Window{Start: day(1), End: day(2)}}, []string{"two"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.filter.Page.Limit == 0 {
				test.filter.Page.Limit = 10
			}
			got, total, err := s.List(t.Context(), test.filter)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, names(got)); diff != "" || total != test.total {
				t.Errorf("total %d, want %d (-want +got):\n%s", total, test.total, diff)
			}
		})
	}
}

// The index has no room for long keys, which random characters of any script and escapes make of allowed values.
func TestLongMetadataIsStoredAndFound(t *testing.T) {
	t.Parallel()
	s := store.NewConnections(newDB(t))
	dice := rand.New(rand.NewPCG(1, 2))
	text := func(n, from, size int) string {
		runes := make([]rune, n)
		for i := range runes {
			runes[i] = rune(from + dice.IntN(size))
		}
		return string(runes)
	}
	value := map[string]func(n int) string{
		"ascii":   func(n int) string { return text(n, 'a', 26) },
		"cjk":     func(n int) string { return text(n, 0x4e00, 0x5000) },
		"emoji":   func(n int) string { return text(n, 0x1f300, 0x300) },
		"escapes": func(n int) string { return text(n, 1, 31) },
		"html":    func(n int) string { return strings.Repeat("<&>", n/3) },
	}
	for name, random := range value {
		path := []string{random(100), random(100), random(100), random(100), random(100)}
		want := random(2000)
		var metadata any = want
		for _, key := range slices.Backward(path) {
			metadata = map[string]any{key: metadata, "short": "x"}
		}
		c := newConnection(name)
		var err error
		if c.Metadata, err = json.Marshal(metadata); err != nil {
			t.Fatal(err)
		}
		if err = s.Create(t.Context(), c); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, m := range []struct {
			store.MetadataMatch

			found []string
		}{
			{store.MetadataMatch{Path: path, Value: want}, []string{name}},
			{store.MetadataMatch{Path: path, Value: want + "x"}, []string{}},
			{store.MetadataMatch{Path: path[:4], Value: want}, []string{}},
			{store.MetadataMatch{Path: []string{path[0], "short"}, Value: "x"}, []string{name}},
		} {
			list, _, err := s.List(t.Context(), store.ConnectionFilter{Page: store.Page{Limit: 5}, Metadata: []store.MetadataMatch{m.MetadataMatch}})
			if diff := cmp.Diff(m.found, names(list)); diff != "" || err != nil {
				t.Errorf("%s: found (-want +got), %v:\n%s", name, err, diff)
			}
		}
	}
}

func TestMetadataSurvivesCharactersTextColumnsRefuse(t *testing.T) {
	t.Parallel()
	s := store.NewConnections(newDB(t))
	c := newConnection("odd")
	c.Metadata = []byte(`{"a\u0000b":"x\u0000y","plain":"1"}`)
	if err := s.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for _, m := range []store.MetadataMatch{
		{Path: []string{"a\x00b"}, Value: "x\x00y"},
		{Path: []string{"plain"}, Value: "1"},
	} {
		_, total, err := s.List(t.Context(), store.ConnectionFilter{Page: store.Page{Limit: 1}, Metadata: []store.MetadataMatch{m}})
		if err != nil || total != 1 {
			t.Errorf("%q: total %d, %v", m, total, err)
		}
	}
	c = newConnection("broken")
	c.Metadata = []byte(`[1]`)
	var coded *problem.Error
	if err := s.Create(t.Context(), c); err == nil || errors.As(err, &coded) {
		t.Errorf("metadata that is no object: %v", err)
	}
}
