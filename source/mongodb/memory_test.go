package mongodb

import (
	"context"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/sourcetest"
)

// TestMemory reads more rows than a server here could be filled with, and watches the heap. It runs alone.
func TestMemory(t *testing.T) { //nolint:paralleltest // it looks at the memory of the process
	rows := 5_000_000
	if testing.Short() {
		rows = 100_000
	}
	const perBatch = 10_000
	documents := make([]any, perBatch)
	for i := range documents {
		documents[i] = bson.D{{Key: "_id", Value: int64(i)}, {Key: "name", Value: "narrow"}, {Key: "paid", Value: true}}
	}
	full := batch(9, "db.b", "nextBatch", nil, documents...)
	raw, err := bson.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	last, err := bson.Marshal(batch(0, "db.b", "nextBatch", nil))
	if err != nil {
		t.Fatal(err)
	}
	sent := 0
	server := newScript(t, standalone(), listing(nil))
	answer := server.answer
	server.answer = func(command string, doc bson.Raw) bson.D {
		if command == "find" && doc.Lookup("sort").IsZero() {
			return batch(9, "db.b", "firstBatch", nil)
		}
		return answer(command, doc)
	}
	server.raw = func(command string) bson.Raw {
		if command != "getMore" {
			return nil
		}
		if sent == rows {
			return last
		}
		sent += perBatch
		return raw
	}
	s := sourcetest.Open(t, New(), server.params())
	table := tableOf(t, documents[0])
	q := source.Query{Table: &source.Table{Schema: "db", Base: "b", Columns: table.Columns}}
	for i := range q.Table.Columns {
		q.Columns = append(q.Columns, &q.Table.Columns[i])
	}
	if _, err = s.Begin(context.Background(), time.Now().Add(10*time.Minute)); err != nil {
		t.Fatal(sourcetest.Cause(err))
	}
	runtime.GC()
	before, peak, got := heap(), uint64(0), 0
	var dst []byte
	err = s.Stream(context.Background(), q, func(r source.Row) error {
		dst = dst[:0]
		for i := range q.Columns {
			dst = r.AppendJSON(dst, i)
		}
		if got++; got%1000 == 0 {
			peak = max(peak, heap())
		}
		return nil
	})
	if err != nil || got != rows {
		t.Errorf("%d rows, %v", got, sourcetest.Cause(err))
	}
	const limit = 64 << 20
	if t.Logf("the heap grew by %d KiB", (max(peak, before)-before)>>10); peak > before+limit {
		t.Errorf("the heap grew by %d MiB", (peak-before)>>20)
	}
}

func heap() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
