-- +goose Up
-- When each tenant's expired results and jobs are deleted next, and who is at it.
CREATE TABLE tenant_retention (
    tenant_id     text PRIMARY KEY,
    due_at        timestamptz NOT NULL DEFAULT now(),
    orphans_at    timestamptz NOT NULL DEFAULT now(), -- when its objects are compared with its jobs next
    claim         uuid,
    claimed_until timestamptz
);

CREATE INDEX tenant_retention_due ON tenant_retention (due_at);

-- Versions of the master key that something may be sealed under.
CREATE TABLE key_versions (
    version    integer PRIMARY KEY,
    first_used timestamptz NOT NULL DEFAULT now()
);

-- +goose Down
DROP TABLE key_versions;
DROP TABLE tenant_retention;
