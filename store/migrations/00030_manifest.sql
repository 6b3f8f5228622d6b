-- +goose Up
-- Where a result is an object per table, result_path, result_sha256 and result_hmac are of the manifest that lists them.
-- result_size_bytes is the size of the tables then, and this is the manifest's own.
ALTER TABLE jobs ADD COLUMN result_manifest_bytes bigint;

-- +goose Down
ALTER TABLE jobs DROP COLUMN result_manifest_bytes;
