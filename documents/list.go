package documents

import (
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/store"
)

const cursorBytes = 8 + 16 // microseconds of Unix time, or a version; an id

// bounds returns where the page starts and how many rows it has.
func (l List) bounds() (number int64, id uuid.UUID, limit int, err error) {
	limit = l.Limit
	if limit == 0 {
		limit = DefaultLimit
	}
	if limit < 1 || limit > MaxLimit {
		return 0, uuid.Nil, 0, Invalid("limit", "The limit must be from 1 to 100.")
	}
	if l.Cursor == "" {
		return 0, uuid.Nil, limit, nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(l.Cursor)
	if err != nil || len(raw) != cursorBytes {
		return 0, uuid.Nil, 0, Invalid("cursor", "The cursor is not one that a listing gave out.")
	}
	return int64(binary.BigEndian.Uint64(raw)), uuid.UUID(raw[8:]), limit, nil //nolint:gosec // it was one
}

func cursor(number int64, id uuid.UUID) string {
	raw := binary.BigEndian.AppendUint64(nil, uint64(number)) //nolint:gosec // and becomes one again
	return base64.RawURLEncoding.EncodeToString(append(raw, id[:]...))
}

// paged returns the page that query fills. It is asked for one row more than the page has.
func paged[T any](l List, query func(store.Position, int) ([]T, error), at func(T) (time.Time, uuid.UUID)) (Page[T], error) {
	number, id, limit, err := l.bounds()
	if err != nil {
		return Page[T]{}, err
	}
	var after store.Position
	if l.Cursor != "" {
		after = store.Position{At: time.UnixMicro(number).UTC(), ID: id}
	}
	rows, err := query(after, limit+1)
	if err != nil {
		return Page[T]{}, err
	}
	return cut(rows, limit, func(row T) string {
		created, id := at(row)
		return cursor(created.UnixMicro(), id)
	}), nil
}

// cut makes a page of at most limit rows.
func cut[T any](rows []T, limit int, position func(T) string) Page[T] {
	if len(rows) <= limit {
		return Page[T]{Items: rows}
	}
	return Page[T]{Items: rows[:limit], NextCursor: position(rows[limit-1])}
}
