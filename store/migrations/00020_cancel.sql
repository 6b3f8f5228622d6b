-- +goose Up
-- When somebody asked a processing job to stop. It is never taken back, and such a job ends in no way but canceled.
ALTER TABLE jobs ADD COLUMN cancel_requested_at timestamptz;

-- +goose Down
ALTER TABLE jobs DROP COLUMN cancel_requested_at;
