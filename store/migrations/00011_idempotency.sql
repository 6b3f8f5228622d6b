-- +goose Up
CREATE TABLE idempotency_records (
    -- SHA-256 of who asked for what under which key
    scope       bytea PRIMARY KEY,
    -- of the attempt that owns the record: whoever lost it can't write the answer any more
    token       uuid NOT NULL,
    -- sealed, because a digest of a body with a password in it could be guessed from
    fingerprint bytea NOT NULL,
    lease_until timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    status      integer,
    location    text NOT NULL DEFAULT '',
    etag        text NOT NULL DEFAULT '',
    body        bytea
);

CREATE INDEX idempotency_records_expiry ON idempotency_records (expires_at);

-- +goose Down
DROP TABLE idempotency_records;
