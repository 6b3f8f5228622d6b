package mongodb

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/sourcetest"
)

// BenchmarkStream reads 200,000 documents as JSON from a server that has its batches ready, and beside that the raw
// documents with the driver's own cursor.
func BenchmarkStream(b *testing.B) {
	const rows, perBatch = 200_000, 5_000
	documents := make([]any, perBatch)
	for i := range documents {
		documents[i] = bson.D{
			{Key: "_id", Value: int64(i)}, {Key: "account", Value: int32(i % 1000)}, {Key: "amount", Value: decimal("1234.50")},
			{Key: "booked_at", Value: bson.NewDateTimeFromTime(time.Unix(1_700_000_000+int64(i)*7, 0))}, {Key: "settled", Value: i%3 == 0},
			{Key: "note", Value: "Größe \"number\" 😀"}, {Key: "attributes", Value: bson.D{{Key: "n", Value: int32(i)}, {Key: "tag", Value: "x"}}},
			{Key: "rate", Value: float64(i) * 0.1}, {Key: "digest", Value: bson.Binary{Data: []byte("0123456789abcdef")}},
		}
	}
	server := newScript(b, standalone(), nil)
	sent := 0
	full, last := marshal(b, batch(9, "db.b", "nextBatch", nil, documents...)), marshal(b, batch(0, "db.b", "nextBatch", nil))
	first := marshal(b, batch(9, "db.b", "firstBatch", nil))
	server.raw = func(command string) bson.Raw {
		switch {
		case command == "find":
			sent = 0
			return first
		case command != "getMore":
			return nil
		case sent == rows:
			return last
		}
		sent += perBatch
		return full
	}
	server.answer = func(string, bson.Raw) bson.D { return nil }
	q := source.Query{Table: &source.Table{Schema: "db", Base: "b", Columns: tableOf(b, documents[0]).Columns}}
	q.Columns, _ = q.Table.Select([]string{"*"})
	q.All = true
	b.Run("json", func(b *testing.B) {
		s := sourcetest.Open(b, New(), server.params())
		if _, err := s.Begin(context.Background(), time.Time{}); err != nil {
			b.Fatal(sourcetest.Cause(err))
		}
		var dst []byte
		for b.Loop() {
			err := s.Stream(context.Background(), q, func(r source.Row) error {
				dst = dst[:0]
				for i := range q.Columns {
					dst = r.AppendJSON(dst, i)
				}
				return nil
			})
			if err != nil {
				b.Fatal(sourcetest.Cause(err))
			}
		}
		b.ReportMetric(float64(rows*b.N)/b.Elapsed().Seconds(), "rows/s")
	})
	b.Run("raw", func(b *testing.B) {
		client, err := mongo.Connect(options.Client().SetHosts([]string{server.address()}).SetAuth(credential(server.params())))
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = client.Disconnect(context.Background()) }()
		for b.Loop() {
			cursor, err := client.Database("db").Collection("b").Find(context.Background(), bson.D{})
			if err != nil {
				b.Fatal(err)
			}
			size := 0
			for cursor.Next(context.Background()) {
				size += len(cursor.Current)
			}
			if cursor.Err() != nil || size == 0 {
				b.Fatal(cursor.Err())
			}
		}
		b.ReportMetric(float64(rows*b.N)/b.Elapsed().Seconds(), "rows/s")
	})
}
