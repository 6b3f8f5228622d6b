-- +goose Up
-- The names a job reads, as the code that fills it describes; tells which connections active jobs use.
ALTER TABLE jobs ADD COLUMN datasources text[] NOT NULL DEFAULT '{}';
UPDATE jobs SET datasources = ARRAY(SELECT json_object_keys(mapped_fields)) WHERE status IN ('pending', 'processing');
CREATE INDEX jobs_open_datasources ON jobs USING gin (datasources) WHERE status IN ('pending', 'processing');

CREATE INDEX connections_live_unassigned ON connections (created_at, id) WHERE deleted_at IS NULL AND product_name IS NULL;

-- The latest tests of each connection. The ids are not only those of connections above: internal datasources are
-- tested too.
CREATE TABLE connection_tests (
    connection_id uuid PRIMARY KEY,
    taken         timestamptz[] NOT NULL,
    allowed       boolean NOT NULL
);

-- +goose Down
DROP TABLE connection_tests;
DROP INDEX connections_live_unassigned;
ALTER TABLE jobs DROP COLUMN datasources;
