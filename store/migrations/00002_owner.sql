-- +goose Up
-- Whose database this is. One row: a database belongs to one tenant for good.
CREATE TABLE database_owner (
    only_row  boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    tenant_id text NOT NULL
);

-- +goose Down
DROP TABLE database_owner;
