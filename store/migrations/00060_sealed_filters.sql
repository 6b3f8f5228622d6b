-- +goose Up
-- Filters are sealed: a JSON string, whose key version this is. Where it is null they are from before, an object in clear.
ALTER TABLE jobs ADD COLUMN filters_key_version integer;

-- +goose Down
-- Sealed filters stay: a version that can't open them takes a string for no filters it can run, and fails the job.
ALTER TABLE jobs DROP COLUMN filters_key_version;
