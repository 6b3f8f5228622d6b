-- +goose Up
-- A text that everybody knows, sealed under the key of the version: whoever has another key can't open it.
ALTER TABLE key_versions ADD COLUMN sealed bytea;

-- +goose Down
ALTER TABLE key_versions DROP COLUMN sealed;
