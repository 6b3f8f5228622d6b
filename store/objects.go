package store

import (
	"context"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// Object returns the environment's document, deleted ones too, or FET-1001.
func (s Documents) Object(ctx context.Context, environment, id uuid.UUID) (*Object, error) {
	return take[Object](s.db.WithContext(ctx).Where("environment_id = ? AND id = ?", environment, id), "object")
}

// LockObject is Object, and until the transaction ends nobody else changes the document.
func (s Documents) LockObject(ctx context.Context, environment, id uuid.UUID) (*Object, error) {
	q := s.db.WithContext(ctx).Clauses(clause.Locking{Strength: "UPDATE"})
	return take[Object](q.Where("environment_id = ? AND id = ?", environment, id), "object")
}

// Page returns the document of the source's page, or nil.
func (s Documents) Page(ctx context.Context, source uuid.UUID, url string) (*Object, error) {
	return s.page(s.db.WithContext(ctx), source, url)
}

// LockPage is Page, and until the transaction ends nobody else changes the document.
func (s Documents) LockPage(ctx context.Context, source uuid.UUID, url string) (*Object, error) {
	return s.page(s.db.WithContext(ctx).Clauses(clause.Locking{Strength: "UPDATE"}), source, url)
}

func (s Documents) page(q *gorm.DB, source uuid.UUID, url string) (*Object, error) {
	found, err := list[Object](q.Where("source_id = ? AND url = ? AND bound", source, url), "page")
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// Pages returns at most limit of the source's documents after the position. url, unless empty, picks one.
func (s Documents) Pages(ctx context.Context, source uuid.UUID, url string, after Position, limit int) ([]Object, error) {
	q := s.db.WithContext(ctx).Where("source_id = ? AND bound", source)
	if url != "" {
		q = q.Where("url = ?", url)
	}
	return list[Object](after.after(q, "created_at", limit), "documents")
}

// FreshETag returns the entity tag the document's page had when its bytes were last seen, or nothing if it had none or
// that was longer ago than within.
func (s Documents) FreshETag(ctx context.Context, environment, id uuid.UUID, within time.Duration) (string, error) {
	var found []string
	err := s.db.WithContext(ctx).Raw(`SELECT etag FROM objects WHERE environment_id = ? AND id = ?
		AND full_fetched_at > clock_timestamp() - ? * interval '1 second'`, environment, id, within.Seconds()).Scan(&found).Error
	if err != nil || len(found) == 0 {
		return "", mapped("get entity tag", err)
	}
	return found[0], nil
}

// CreateObject stores the document and reports whether its id was free.
func (s Documents) CreateObject(ctx context.Context, o *Object) (bool, error) {
	result := s.db.WithContext(ctx).Clauses(clause.OnConflict{
		Columns: []clause.Column{{Name: "environment_id"}, {Name: "id"}}, DoNothing: true,
	}).Create(o)
	return result.RowsAffected == 1, mapped("create object", result.Error)
}

// SaveObject stores what a fetch changed of a document that LockPage returned.
func (s Documents) SaveObject(ctx context.Context, o *Object) error {
	return mapped("save object", s.only(ctx, o).Select("Version", "LastFetchID", "LastFetchedAt", "ETag",
		"FullFetchedAt", "DeclaredType", "FetchedBytes").Updates(o).Error)
}

// Unbind takes the page from a document that LockObject returned. Id and versions stay.
func (s Documents) Unbind(ctx context.Context, o *Object) error {
	o.Bound = false
	return mapped("unbind object", s.only(ctx, o).Select("Bound").Updates(o).Error)
}

// only picks the row of the document. GORM would do so by itself, but not by an id that is all zeros, which callers may
// choose as any other: it takes that for no id, and would change every document of the environment.
func (s Documents) only(ctx context.Context, o *Object) *gorm.DB {
	return s.db.WithContext(ctx).Where("environment_id = ? AND id = ?", o.EnvironmentID, o.ID)
}

// AddVersion stores the version, in the transaction that holds the document.
func (s Documents) AddVersion(ctx context.Context, v *DocumentVersion) error {
	return mapped("add version", s.db.WithContext(ctx).Create(v).Error)
}

// DocumentVersion returns one version of the environment's document, or FET-1001.
func (s Documents) DocumentVersion(ctx context.Context, environment, object uuid.UUID, version int64) (*DocumentVersion, error) {
	return take[DocumentVersion](s.db.WithContext(ctx).
		Where("environment_id = ? AND object_id = ? AND version = ?", environment, object, version), "version")
}

// DocumentVersions returns at most limit versions of the document after the one given.
func (s Documents) DocumentVersions(
	ctx context.Context, environment, object uuid.UUID, after int64, limit int,
) ([]DocumentVersion, error) {
	return list[DocumentVersion](s.db.WithContext(ctx).
		Where("environment_id = ? AND object_id = ? AND version > ?", environment, object, after).
		Order("version").Limit(limit), "versions")
}

// Blob returns the content with the digest, or nil.
func (s Documents) Blob(ctx context.Context, sha256 []byte) (*Blob, error) {
	found, err := list[Blob](s.db.WithContext(ctx).Where("sha256 = ?", sha256), "content")
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// AddBlob stores where content is, unless the tenant has such content already.
func (s Documents) AddBlob(ctx context.Context, b *Blob) error {
	return mapped("add content", s.db.WithContext(ctx).Clauses(clause.OnConflict{DoNothing: true}).Create(b).Error)
}
