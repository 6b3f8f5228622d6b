package mongodb

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// FuzzValues writes JSON of whatever a server may send, or fails.
func FuzzValues(f *testing.F) {
	for _, c := range valueCases() {
		if raw, err := bson.Marshal(bson.D{{Key: "v", Value: c.value}}); err == nil {
			f.Add(raw)
		}
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		encodeAny(doc)
		w := &writer{}
		out := w.value(nil, element{kind: kindDocument, value: doc}, 0)
		if w.err == nil && (!json.Valid(out) || !utf8.Valid(out)) {
			t.Errorf("%x is %s", doc, out)
		}
	})
}
