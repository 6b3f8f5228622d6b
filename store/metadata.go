package store

import (
	"bytes"
	"crypto/sha256"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// textArray is a text[] parameter. GORM would spread a plain slice into a list of parameters.
type textArray []string

// Value returns the array in Postgres's text form.
func (a textArray) Value() (driver.Value, error) {
	var b strings.Builder
	b.WriteByte('{')
	for i, s := range a {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('"')
		for j := range len(s) {
			if s[j] == '"' || s[j] == '\\' {
				b.WriteByte('\\')
			}
			b.WriteByte(s[j])
		}
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return b.String(), nil
}

// metadataEntry is how one scalar of a metadata object is stored for searching: the JSON array of the member names
// that lead to it and of its value. JSON escapes what a text column can't hold, so any name and value will do. A long
// one is replaced by its digest, which no array can be mistaken for: the index has no room for it.
func metadataEntry(path []string, value string) string {
	entry, err := json.Marshal(append(slices.Clone(path), value))
	if err != nil {
		return "" // strings always marshal
	}
	if len(entry) > maxEntry {
		return fmt.Sprintf("sha256:%x", sha256.Sum256(entry))
	}
	return string(entry)
}

// maxEntry is well below the 2.7 kB that a key of the index may have.
const maxEntry = 1024

// metadataEntries lists the entries of a metadata object: strings by value, numbers and booleans by their JSON text.
// Nulls and the elements of arrays have none.
func metadataEntries(metadata []byte) (textArray, error) {
	entries := textArray{}
	if len(metadata) == 0 {
		return entries, nil
	}
	dec := json.NewDecoder(bytes.NewReader(metadata))
	dec.UseNumber() // keeps the digits as they were written
	var root map[string]any
	if err := dec.Decode(&root); err != nil {
		return nil, fmt.Errorf("read metadata: %w", err)
	}
	return appendEntries(entries, nil, root), nil
}

func appendEntries(entries textArray, path []string, object map[string]any) textArray {
	for name, value := range object {
		at := append(slices.Clone(path), name)
		switch v := value.(type) {
		case map[string]any:
			entries = appendEntries(entries, at, v)
		case string:
			entries = append(entries, metadataEntry(at, v))
		case json.Number:
			entries = append(entries, metadataEntry(at, v.String()))
		case bool:
			entries = append(entries, metadataEntry(at, strconv.FormatBool(v)))
		}
	}
	slices.Sort(entries)
	return slices.Compact(entries)
}
