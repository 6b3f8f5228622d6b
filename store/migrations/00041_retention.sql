-- +goose Up
-- A result that has expired is deleted with its facts; when that was stays.
ALTER TABLE jobs DROP CONSTRAINT jobs_result;
ALTER TABLE jobs ADD CONSTRAINT jobs_result CHECK (
    status <> 'completed' OR result_expires_at IS NOT NULL OR (result_path IS NOT NULL AND result_sha256 IS NOT NULL));
-- The version of the key that a result is encrypted under, once that is another than it was made with.
ALTER TABLE jobs ADD COLUMN result_sealed_version integer;

CREATE INDEX jobs_results_expiry ON jobs (result_expires_at) WHERE result_path IS NOT NULL;
CREATE INDEX jobs_completed ON jobs (completed_at, id) WHERE completed_at IS NOT NULL;

-- +goose Down
DROP INDEX jobs_completed;
DROP INDEX jobs_results_expiry;
ALTER TABLE jobs DROP COLUMN result_sealed_version;
ALTER TABLE jobs DROP CONSTRAINT jobs_result;
ALTER TABLE jobs ADD CONSTRAINT jobs_result CHECK (status <> 'completed' OR (result_path IS NOT NULL AND result_sha256 IS NOT NULL));
