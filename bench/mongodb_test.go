package bench

import (
	"context"
	"crypto/sha256"
	"io"
	"net"
	"slices"
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

// BenchmarkMongoDB reads a collection as JSON, and copies its BSON with the driver's own cursor beside it, turn by turn:
// mongodump, which does just that, can't be had here. The server is FerretDB, which is far slower than both, so that the
// ratio says little more than that neither waits without need; BenchmarkStream of source/mongodb has a server that
// costs nothing.
func BenchmarkMongoDB(b *testing.B) {
	d := testkit.MongoDB(b).NewDatabase(b)
	fill(b, d)
	p := source.Params{
		Kind: source.MongoDB, Host: d.Host, Port: d.Port, Database: d.Name, User: d.User, Password: d.Password, Options: d.Options,
	}
	var ours, theirs, ratios []float64
	for b.Loop() {
		for range rounds {
			began := time.Now()
			copyBSON(b, d)
			copied := documents / time.Since(began).Seconds()
			extracted := documents / extractJSON(b, p).Seconds()
			ours, theirs, ratios = append(ours, extracted), append(theirs, copied), append(ratios, extracted/copied)
		}
	}
	b.ReportMetric(median(ours), "rows/s")
	b.ReportMetric(median(theirs), "raw-rows/s")
	b.ReportMetric(median(ratios), "ratio")
	b.Logf("%d documents of 9 fields, %d rounds: extraction %.0f rows/s, the driver's raw BSON %.0f rows/s, ratio %.2f (%.2f to %.2f)",
		documents, rounds, median(ours), median(theirs), median(ratios), slices.Min(ratios), slices.Max(ratios))
}

func fill(b *testing.B, d testkit.MongoDatabase) {
	b.Helper()
	list := make([]any, documents)
	for i := range list {
		list[i] = bson.D{
			{Key: "_id", Value: int64(i)}, {Key: "account", Value: int32(i % 1000)}, {Key: "amount", Value: float64(i) * 1.37},
			{Key: "booked_at", Value: bson.NewDateTimeFromTime(time.Unix(1_700_000_000+int64(i)*7, 0))}, {Key: "settled", Value: i%3 == 0},
			{Key: "note", Value: "Größe \"number\" 😀"}, {Key: "attributes", Value: bson.D{{Key: "n", Value: int32(i)}, {Key: "tag", Value: "x"}}},
			{Key: "pair", Value: bson.A{int32(i), int32(i + 1)}}, {Key: "digest", Value: bson.Binary{Data: []byte("0123456789abcdef")}},
		}
	}
	d.Insert(b, "bench_ledger", list...)
}

// copyBSON is what a dump does: every document's bytes, as they are.
func copyBSON(b *testing.B, d testkit.MongoDatabase) {
	b.Helper()
	ctx := context.Background()
	cursor, err := d.Client.Database(d.Name).Collection("bench_ledger").Find(ctx, bson.D{}, options.Find().SetBatchSize(10_000))
	if err != nil {
		b.Fatal(err)
	}
	rows := consume(ctx, cursor, sha256.New())
	if err := cursor.Err(); err != nil || rows != documents {
		b.Fatalf("%d documents, %v", rows, err)
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
func extractJSON(b *testing.B, p source.Params) time.Duration {
	b.Helper()
	ctx := context.Background()
	s, err := mongodb.New().Open(ctx, p, &net.Dialer{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	catalog, err := s.Catalog(ctx, source.Scope{Tables: []string{"bench_ledger"}})
	if err != nil {
		b.Fatal(err)
	}
	if _, err = s.Begin(ctx, time.Now().Add(time.Hour)); err != nil {
		b.Fatal(err)
	}
	table := &catalog.Tables[0]
	q := source.Query{Table: table, All: true}
	if q.Columns, err = table.Select([]string{source.AllColumns}); err != nil {
		b.Fatal(err)
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
		b.Fatalf("%d documents, %v", rows, err)
	}
	return time.Since(began)
}
