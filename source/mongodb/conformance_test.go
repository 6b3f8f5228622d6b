package mongodb

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/sourcetest"
	"github.com/fetcherhq/fetcher/testkit"
)

// TestConformance runs the suite of all kinds.
func TestConformance(t *testing.T) { //nolint:paralleltest // it looks at memory
	b := sourcetest.Backend{
		Driver:   New(),
		New:      newConformanceDatabase,
		Implicit: true, // _id
		// FerretDB takes a minute for more; millions are read in TestMemory.
		NarrowRows: 10_000,
		Without: map[sourcetest.Feature]string{
			sourcetest.Date:         "MongoDB has no dates without a time",
			sourcetest.Timestamp:    "MongoDB has no timestamps without a zone",
			sourcetest.Schemas:      "a connection reads one database",
			sourcetest.DollarTables: "MongoDB refuses such names",
			sourcetest.Cancel:       "tested with a server that follows a script: FerretDB's list of operations is empty",
		},
	}
	if testkit.MongoDB(t).Own {
		b.Consistency = consistencyLocal
		b.Without[sourcetest.Decimal] = "FerretDB has no Decimal128"
		b.Without[sourcetest.QuotedNames] = "FerretDB fails to quote the names of its own tables"
		b.Without[sourcetest.Views] = "FerretDB has no views"
		b.Without[sourcetest.Snapshot] = "FerretDB has no snapshots"
	} else {
		b.Consistency = consistencyOf(t)
		if b.Consistency != consistencySnapshot {
			b.Without[sourcetest.Snapshot] = "the server is not part of a replica set"
		}
	}
	sourcetest.Run(t, b)
}

// consistencyOf asks the server that was given.
func consistencyOf(t *testing.T) string {
	t.Helper()
	s := sourcetest.Open(t, New(), newFixture(t).params())
	consistency, err := s.Begin(context.Background(), time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(sourcetest.Cause(err))
	}
	return consistency
}

func newConformanceDatabase(tb testing.TB) sourcetest.Database {
	tb.Helper()
	f := newFixture(tb)
	db := f.Client.Database(f.Name)
	return sourcetest.Database{
		Params: f.params(),
		Create: func(tb testing.TB, tables ...sourcetest.Table) {
			tb.Helper()
			for _, t := range tables {
				documents := make([]any, 0, len(t.Rows))
				for _, row := range t.Rows {
					documents = append(documents, documentOf(tb, t.Columns, row))
				}
				f.Insert(tb, t.Name, documents...)
			}
		},
		Bulk: func(tb testing.TB, table string, rows, width int) {
			tb.Helper()
			var documents []any
			for i := 1; i <= rows; i++ {
				unit := strconv.Itoa(i) + " "
				v := strings.Repeat(unit, width/len(unit)+1)[:width]
				documents = append(documents, bson.D{{Key: "id", Value: int64(i)}, {Key: "v", Value: v}})
				if len(documents)*width > 4<<20 || i == rows {
					f.Insert(tb, table, documents...)
					documents = documents[:0]
				}
			}
		},
		CreateView: func(tb testing.TB, view, table string) {
			tb.Helper()
			if err := db.CreateView(context.Background(), view, table, bson.A{}); err != nil {
				tb.Fatal(err)
			}
		},
		Transfer: func(ctx context.Context) error {
			session, err := f.Client.StartSession()
			if err != nil {
				return err
			}
			defer session.EndSession(ctx)
			_, err = session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
				all := bson.D{}
				if _, failed := db.Collection("torn_a").UpdateMany(ctx, all, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: -1}}}}); failed != nil {
					return nil, failed
				}
				return db.Collection("torn_b").UpdateMany(ctx, all, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 10}}}})
			})
			return err
		},
	}
}

func documentOf(tb testing.TB, columns []sourcetest.Column, row []string) bson.D {
	tb.Helper()
	doc := bson.D{}
	for i, c := range columns {
		doc = append(doc, bson.E{Key: c.Name, Value: valueOf(tb, c.Type, row[i])})
	}
	return doc
}

func valueOf(tb testing.TB, typ sourcetest.Type, s string) any {
	tb.Helper()
	var v any = s
	var err error
	switch {
	case s == sourcetest.Null:
		return nil
	case typ == sourcetest.Integer:
		v, err = strconv.ParseInt(s, 10, 64)
	case typ == sourcetest.Decimal:
		v, err = bson.ParseDecimal128(s)
	case typ == sourcetest.TimestampTZ:
		v, err = parseDate(s)
	case typ == sourcetest.UUID:
		var ids bson.A
		ids, err = operands(source.FamilyUUID, &native{}, source.Operand{Text: s})
		v = ids[0]
	case typ == sourcetest.ObjectID:
		v, err = bson.ObjectIDFromHex(s)
	case typ == sourcetest.Boolean:
		v, err = strconv.ParseBool(s)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return v
}
