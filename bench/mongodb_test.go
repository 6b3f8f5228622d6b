package bench

import (
	"context"
	"crypto/sha256"
	"io"
	"net"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/mongodb"
	"github.com/fetcherhq/fetcher/testkit"
)

const documents = 5_000

// mongoSuite reads a collection as JSON, and copies its BSON with the driver's own cursor beside it, turn by turn:
// mongodump, which does just that, can't be had here. The server is FerretDB, which is far slower than both, so that the
// ratio says little more than that neither waits without need; BenchmarkStream of source/mongodb has a server that
// costs nothing.
func mongoSuite(t *testing.T, s *section) {
	d := testkit.MongoDB(t).NewDatabase(t)
	fill(t, d)
	p := source.Params{
		Kind: source.MongoDB, Host: d.Host, Port: d.Port, Database: d.Name, User: d.User, Password: d.Password, Options: d.Options,
	}
	s.measure(t, measurement{
		name: "5,000 documents of 9 fields from FerretDB", against: "the driver's raw BSON", figures: []figure{{"rate", "documents/s", bound{}}},
		product: func(t *testing.T) []float64 { return []float64{documents / extractJSON(t, p).Seconds()} },
		reference: func(t *testing.T) []float64 {
			began := time.Now()
			copyBSON(t, d)
			return []float64{documents / time.Since(began).Seconds()}
		},
	})
}

func fill(t testing.TB, d testkit.MongoDatabase) {
	t.Helper()
	list := make([]any, documents)
	for i := range list {
		list[i] = bson.D{
			{Key: "_id", Value: int64(i)}, {Key: "account", Value: int32(i % 1000)}, {Key: "amount", Value: float64(i) * 1.37},
			{Key: "booked_at", Value: bson.NewDateTimeFromTime(time.Unix(1_700_000_000+int64(i)*7, 0))}, {Key: "settled", Value: i%3 == 0},
			{Key: "note", Value: "Größe \"number\" 😀"}, {Key: "attributes", Value: bson.D{{Key: "n", Value: int32(i)}, {Key: "tag", Value: "x"}}},
			{Key: "pair", Value: bson.A{int32(i), int32(i + 1)}}, {Key: "digest", Value: bson.Binary{Data: []byte("0123456789abcdef")}},
		}
	}
	d.Insert(t, "bench_ledger", list...)
}

// copyBSON is what a dump does: every document's bytes, as they are.
func copyBSON(t testing.TB, d testkit.MongoDatabase) {
	t.Helper()
	ctx := context.Background()
	cursor, err := d.Client.Database(d.Name).Collection("bench_ledger").Find(ctx, bson.D{}, options.Find().SetBatchSize(10_000))
	if err != nil {
		t.Fatal(err)
	}
	rows := consume(ctx, cursor, sha256.New())
	if err := cursor.Err(); err != nil || rows != documents {
		t.Fatalf("%d documents, %v", rows, err)
	}
}

func consume(ctx context.Context, cursor *mongo.Cursor, w io.Writer) (rows int) {
	for cursor.Next(ctx) {
		_, _ = w.Write(cursor.Current)
		rows++
	}
	return rows
}

// extractJSON returns how long the documents took, without the catalogue, for which FerretDB sorts all of them.
func extractJSON(t testing.TB, p source.Params) time.Duration {
	t.Helper()
	ctx := context.Background()
	s, err := mongodb.New().Open(ctx, p, &net.Dialer{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	catalog, err := s.Catalog(ctx, source.Scope{Tables: []string{"bench_ledger"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = s.Begin(ctx, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	table := &catalog.Tables[0]
	q := source.Query{Table: table, All: true}
	if q.Columns, err = table.Select([]string{source.AllColumns}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	sum, rows := sha256.New(), 0
	var dst []byte
	err = s.Stream(ctx, q, func(r source.Row) error {
		dst = dst[:0]
		for i := range q.Columns {
			dst = r.AppendJSON(dst, i)
		}
		_, _ = sum.Write(dst)
		rows++
		return nil
	})
	if err != nil || rows != documents {
		t.Fatalf("%d documents, %v", rows, err)
	}
	return time.Since(began)
}
