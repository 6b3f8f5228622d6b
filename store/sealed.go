package store

import (
	"context"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

// Sealed are the queries of whoever seals a tenant's secrets anew. Each replaces a value only if it still is as it was
// read, so that they stand no change in the way.
type Sealed struct{ db *gorm.DB }

// NewSealed returns the queries on db, which belongs to exactly one tenant.
func NewSealed(db *gorm.DB) Sealed { return Sealed{db: db} }

// Connections returns up to limit live connections whose ids follow the given one, in order.
func (s Sealed) Connections(ctx context.Context, after uuid.UUID, limit int) ([]Connection, error) {
	found := []Connection{}
	err := s.db.WithContext(ctx).Where("id > ? AND deleted_at IS NULL", after).Order("id").Limit(limit).Find(&found).Error
	return found, mapped("list connections", err)
}

// ReplaceSecrets stores the sealed secrets of a connection unless it was changed since, and reports whether. They are the
// same secrets: the revision stays.
func (s Sealed) ReplaceSecrets(ctx context.Context, c *Connection) (bool, error) {
	result := s.db.WithContext(ctx).Model(&Connection{}).
		Where("id = ? AND revision = ? AND deleted_at IS NULL", c.ID, c.Revision).UpdateColumns(map[string]any{
		"password_sealed": c.PasswordSealed, "ssl_ca_sealed": c.SSLCASealed, "ssl_cert_sealed": c.SSLCertSealed,
		"ssl_key_sealed": c.SSLKeySealed, "key_version": c.KeyVersion,
	})
	return result.RowsAffected == 1, mapped("replace secrets", result.Error)
}

// Fingerprint is what an idempotency record keeps of its request, sealed.
type Fingerprint struct{ Scope, Fingerprint []byte }

// Fingerprints returns up to limit fingerprints of records that have not expired and whose scopes follow the given one.
func (s Sealed) Fingerprints(ctx context.Context, after []byte, limit int) ([]Fingerprint, error) {
	found := []Fingerprint{}
	err := s.db.WithContext(ctx).Raw(`SELECT scope, fingerprint FROM idempotency_records
		WHERE expires_at > now() AND scope > ? ORDER BY scope LIMIT ?`, after, limit).Scan(&found).Error
	return found, mapped("list fingerprints", err)
}

// ReplaceFingerprint replaces a fingerprint, and reports whether it still was as it was read.
func (s Sealed) ReplaceFingerprint(ctx context.Context, old Fingerprint, sealed []byte) (bool, error) {
	result := s.db.WithContext(ctx).Exec(`UPDATE idempotency_records SET fingerprint = ? WHERE scope = ? AND fingerprint = ?`,
		sealed, old.Scope, old.Fingerprint)
	return result.RowsAffected == 1, mapped("replace fingerprint", result.Error)
}

// Filters returns up to limit jobs whose ids follow the given one, in order, with no more than their filters, which are in
// clear or sealed under another version of the key.
func (s Sealed) Filters(ctx context.Context, version int, after uuid.UUID, limit int) ([]Job, error) {
	found := []Job{}
	err := s.db.WithContext(ctx).Select("id", "filters", "filters_key_version").
		Where("filters IS NOT NULL AND filters_key_version IS DISTINCT FROM ? AND id > ?", version, after).
		Order("id").Limit(limit).Find(&found).Error
	return found, mapped("list filters", err)
}

// ReplaceFilters stores the filters of a job under the key version it names, and reports whether the job is still there
// and has others.
func (s Sealed) ReplaceFilters(ctx context.Context, j *Job) (bool, error) {
	result := s.db.WithContext(ctx).Model(&Job{}).
		Where("id = ? AND filters_key_version IS DISTINCT FROM ?", j.ID, j.FiltersKeyVersion).
		UpdateColumns(map[string]any{"filters": j.Filters, "filters_key_version": j.FiltersKeyVersion})
	return result.RowsAffected == 1, mapped("replace filters", result.Error)
}

// Blobs returns up to limit contents that are stored under another version of the key, in the order of their digests from
// the one after the given digest on.
func (s Sealed) Blobs(ctx context.Context, version int, after []byte, limit int) ([]Blob, error) {
	found := []Blob{}
	err := s.db.WithContext(ctx).Where("key_version <> ? AND sha256 > ?", version, after).Order("sha256").Limit(limit).Find(&found).Error
	return found, mapped("list contents", err)
}

// ReplaceBlob says where the content is stored now, and reports whether it still was where old says.
func (s Sealed) ReplaceBlob(ctx context.Context, old, now Blob) (bool, error) {
	result := s.db.WithContext(ctx).Model(&Blob{}).Where("sha256 = ? AND object_key = ?", old.SHA256, old.ObjectKey).
		UpdateColumns(map[string]any{"object_key": now.ObjectKey, "hmac": now.HMAC, "key_version": now.KeyVersion})
	return result.RowsAffected == 1, mapped("replace content", result.Error)
}

// KeyUse is how much of a tenant's is sealed under a version of the key.
type KeyUse struct {
	Version                                 int
	Connections, Filters, Results, Contents int
}

// KeyUse counts live connections, filters of jobs, results that have not expired and contents of web documents, by the version they are
// sealed under.
func (s Sealed) KeyUse(ctx context.Context) ([]KeyUse, error) {
	found := []KeyUse{}
	err := s.db.WithContext(ctx).Raw(`
		SELECT version, sum(connections)::int AS connections, sum(filters)::int AS filters, sum(results)::int AS results, sum(contents)::int AS contents FROM (
		    SELECT key_version AS version, 1 AS connections, 0 AS filters, 0 AS results, 0 AS contents FROM connections WHERE deleted_at IS NULL
		    UNION ALL
		    SELECT key_version, 0, 0, 0, 1 FROM content_blobs
		    UNION ALL
		    SELECT filters_key_version, 0, 1, 0, 0 FROM jobs WHERE filters_key_version IS NOT NULL
		    UNION ALL
		    SELECT coalesce(result_sealed_version, result_key_version), 0, 0, 1, 0 FROM jobs WHERE result_path IS NOT NULL AND result_expires_at > now()) u
		GROUP BY version ORDER BY version`).Scan(&found).Error
	return found, mapped("count key versions", err)
}
