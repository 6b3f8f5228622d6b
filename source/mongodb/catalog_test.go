package mongodb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/sourcetest"
)

// describe lists columns as name, type and family, nested ones in brackets.
func describe(columns []source.Column) string {
	var b strings.Builder
	for _, c := range columns {
		name := c.Name
		if c.Nested {
			name = "(" + name + ")"
		}
		fmt.Fprintf(&b, "%s %s %d\n", name, c.Type, c.Family)
	}
	return b.String()
}

func TestCatalog(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("people",
		bson.D{{Key: "_id", Value: int32(1)}, {Key: "name", Value: "a"}, {Key: "age", Value: int32(1)}, {Key: "address", Value: bson.D{
			{Key: "city", Value: "x"}, {Key: "geo", Value: bson.D{{Key: "lat", Value: 0.5}}},
		}}},
		bson.D{{Key: "_id", Value: int32(2)}, {Key: "age", Value: int64(2)}, {Key: "name", Value: nil}, {Key: "pets", Value: bson.A{
			bson.D{{Key: "name", Value: "rex"}}, int32(1),
		}}},
		bson.D{{Key: "_id", Value: int32(3)}, {Key: "age", Value: 0.5}, {Key: "since", Value: bson.DateTime(0)}, {Key: "any", Value: "x"}},
		bson.D{{Key: "_id", Value: int32(4)}, {Key: "any", Value: int32(1)}, {Key: "none", Value: nil}, {Key: "Größe $", Value: true}},
	)
	if err := f.Client.Database(f.Name).CreateCollection(context.Background(), "empty"); err != nil {
		t.Fatal(err)
	}
	s := sourcetest.Open(t, New(), f.params())
	c := sourcetest.Catalog(t, s, source.Scope{})
	if len(c.Tables) != 2 || c.Tables[0].Name != "empty" || c.DefaultSchema != f.Name {
		t.Fatalf("%s: %v", c.DefaultSchema, c.Tables)
	}
	if got := describe(c.Tables[0].Columns); got != "_id null 0\n" {
		t.Errorf("empty: %s", got)
	}
	want := strings.Join([]string{
		fmt.Sprint("_id int ", source.FamilyInt),
		fmt.Sprint("name string ", source.FamilyText),
		fmt.Sprint("age double|int|long ", source.FamilyFloat),
		fmt.Sprint("address object ", source.FamilyJSON),
		fmt.Sprint("(address.city) string ", source.FamilyText),
		fmt.Sprint("(address.geo) object ", source.FamilyJSON),
		fmt.Sprint("(address.geo.lat) double ", source.FamilyFloat),
		fmt.Sprint("pets array ", source.FamilyArray),
		fmt.Sprint("(pets.name) array ", source.FamilyArray),
		fmt.Sprint("since date ", source.FamilyTimestampTZ),
		fmt.Sprint("any int|string ", source.FamilyOther),
		fmt.Sprint("none null ", source.FamilyOther),
		fmt.Sprint("Größe $ bool ", source.FamilyBool),
	}, "\n") + "\n"
	if diff := cmp.Diff(want, describe(c.Tables[1].Columns)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	id := c.Tables[1].Columns[0]
	if !id.PrimaryKey || id.Nullable || id.Position != 1 || c.Tables[1].Columns[1].PrimaryKey || !c.Tables[1].Columns[1].Nullable {
		t.Errorf("%+v", id)
	}
	if _, err := s.Begin(context.Background(), time.Now().Add(time.Minute)); err != nil {
		t.Fatal(sourcetest.Cause(err))
	}
	got, err := whole(t, s, c, "people")
	if err != nil {
		t.Fatal(sourcetest.Cause(err))
	}
	rows := []string{
		`{"_id":1,"name":"a","age":1,"address":{"city":"x","geo":{"lat":0.5}},"pets":null,"since":null,"any":null,"none":null,"Größe $":null}`,
		`{"_id":2,"name":null,"age":2,"address":null,"pets":[{"name":"rex"},1],"since":null,"any":null,"none":null,"Größe $":null}`,
		`{"_id":3,"name":null,"age":0.5,"address":null,"pets":null,"since":"1970-01-01T00:00:00Z","any":"x","none":null,"Größe $":null}`,
		`{"_id":4,"name":null,"age":null,"address":null,"pets":null,"since":null,"any":1,"none":null,"Größe $":true}`,
	}
	if diff := cmp.Diff(rows, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRareFields finds what the sample did not show, if it is named, and nothing that is not there.
func TestRareFields(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var documents []any
	for i := range 2*sampleNamed + 100 {
		doc := bson.D{{Key: "_id", Value: int32(i)}}
		if i == sampleNamed+50 {
			doc = append(doc, bson.E{Key: "rare", Value: int64(7)}, bson.E{Key: "deep", Value: bson.D{{Key: "er", Value: "x"}}})
		}
		documents = append(documents, doc)
	}
	f.insert("c", documents...)
	s := sourcetest.Open(t, New(), f.params())
	c := sourcetest.Catalog(t, s, source.Scope{
		Tables: []string{"C", "other"}, Fields: map[string][]string{"C": {"rare", "deep.er", "nothing", "$where", "*"}, "other": {"x"}},
	})
	table, err := c.Resolve("C")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]source.Family{"rare": source.FamilyInt, "deep.er": source.FamilyText} {
		if column, err := table.Column(name); err != nil || column.Family != want {
			t.Errorf("%s: %+v, %v", name, column, err)
		}
	}
	for _, name := range []string{"nothing", "$where", "deep.nothing"} {
		if _, err := table.Column(name); !errors.Is(err, source.ErrColumnUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Begin(context.Background(), time.Now().Add(time.Minute)); err != nil {
		t.Fatal(sourcetest.Cause(err))
	}
	got := sourcetest.Read(t, s, c, "C", []string{"rare", "deep.er"}, source.Condition{Field: "rare", Op: "gt", Values: sourcetest.Values("6")})
	if diff := cmp.Diff([]string{`{"rare":7,"deep.er":"x"}`}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestOtherDatabase reads the one that a connection's schema, or a scope's, names.
func TestOtherDatabase(t *testing.T) {
	t.Parallel()
	f, other := newFixture(t), newFixture(t)
	f.insert("here", bson.D{{Key: "n", Value: int32(1)}})
	other.insert("there", bson.D{{Key: "n", Value: int32(2)}})
	p := f.params()
	if c := sourcetest.Catalog(t, sourcetest.Open(t, New(), p), source.Scope{Schema: other.Name}); len(c.Tables) != 1 || c.Tables[0].Name != "there" {
		t.Errorf("%v", c.Tables)
	}
	p.Schema = other.Name
	s := sourcetest.Open(t, New(), p)
	if err := s.Ping(context.Background()); err != nil {
		t.Error(sourcetest.Cause(err))
	}
	if _, err := s.Begin(context.Background(), time.Now().Add(time.Minute)); err != nil {
		t.Fatal(sourcetest.Cause(err))
	}
	c := sourcetest.Catalog(t, s, source.Scope{Tables: []string{other.Name + ".there"}})
	if got := sourcetest.Read(t, s, c, "there", []string{"n"}); len(got) != 1 || got[0] != `{"n":2}` {
		t.Errorf("%v", got)
	}
}

// TestManyKeys bounds what a collection whose keys are data lists.
func TestManyKeys(t *testing.T) {
	t.Parallel()
	inner := bson.D{}
	for i := range 2 * maxNested {
		inner = append(inner, bson.E{Key: fmt.Sprint("k", i), Value: int32(i)})
	}
	if got := len(tableOf(t, inner).Columns); got != 2*maxNested+1 {
		t.Errorf("%d columns", got)
	}
	if got := len(tableOf(t, bson.D{{Key: "v", Value: inner}}).Columns); got != maxNested+2 {
		t.Errorf("%d nested columns", got)
	}
	same := tableOf(t, bson.D{{Key: "a", Value: bson.D{{Key: "b", Value: int32(1)}}}, {Key: "a.b", Value: "literal"}})
	if c, err := same.Column("a.b"); err != nil || c.Nested || c.Family != source.FamilyText || len(same.Columns) != 3 {
		t.Errorf("%+v, %v", same.Columns, err)
	}
}
