-- +goose Up
CREATE TABLE connections (
    id               uuid PRIMARY KEY,
    config_name      text NOT NULL,
    product_name     text,
    kind             text NOT NULL,
    host             text NOT NULL,
    port             integer NOT NULL,
    database_name    text NOT NULL,
    schema           text,
    user_name        text NOT NULL,
    password_sealed  bytea,
    ssl_mode         text,
    ssl_ca_sealed    bytea,
    ssl_cert_sealed  bytea,
    ssl_key_sealed   bytea,
    key_version      integer NOT NULL,
    -- json, not jsonb: it is given back exactly as it was sent
    metadata         json,
    -- one entry per scalar in metadata, as the code that fills it describes; searched in place of metadata
    metadata_entries text[] NOT NULL DEFAULT '{}',
    revision         bigint NOT NULL DEFAULT 1,
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now(),
    deleted_at       timestamptz
);

-- A name is taken while its connection lives.
CREATE UNIQUE INDEX connections_live_config_name ON connections (config_name) WHERE deleted_at IS NULL;
CREATE INDEX connections_live_created ON connections (created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX connections_live_metadata ON connections USING gin (metadata_entries) WHERE deleted_at IS NULL;

CREATE TABLE jobs (
    id                 uuid PRIMARY KEY,
    status             text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'processing', 'completed', 'failed')),
    attempt            integer NOT NULL DEFAULT 0,
    attempts_returned  integer NOT NULL DEFAULT 0,
    request_hash       text NOT NULL,
    metadata           json NOT NULL,
    mapped_fields      json NOT NULL,
    filters            json,
    output             json,
    source             text NOT NULL,
    created_at         timestamptz NOT NULL DEFAULT now(),
    started_at         timestamptz,
    completed_at       timestamptz,
    next_attempt_at    timestamptz,
    progress           json,
    result_path        text,
    result_hmac        text,
    result_sha256      text,
    result_format      text,
    result_size_bytes  bigint,
    result_row_count   bigint,
    result_key_version integer,
    result_tables      json,
    result_expires_at  timestamptz,
    error_code         text,
    error_message      text,
    error_datasource   text,
    error_table        text,
    CONSTRAINT jobs_ended CHECK ((status IN ('completed', 'failed')) = (completed_at IS NOT NULL)),
    CONSTRAINT jobs_result CHECK (status <> 'completed' OR (result_path IS NOT NULL AND result_sha256 IS NOT NULL)),
    CONSTRAINT jobs_error CHECK (status <> 'failed' OR error_code IS NOT NULL)
);

CREATE INDEX jobs_hash ON jobs (request_hash, created_at) WHERE status <> 'failed';
CREATE INDEX jobs_created ON jobs (created_at, id);
CREATE INDEX jobs_source_created ON jobs (source, created_at, id);
CREATE INDEX jobs_open ON jobs (created_at) WHERE status IN ('pending', 'processing');

CREATE TABLE outbox_events (
    id              text PRIMARY KEY,
    job_id          uuid NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    type            text NOT NULL,
    time            timestamptz NOT NULL,
    data            json NOT NULL,
    attempts        integer NOT NULL DEFAULT 0,
    next_attempt_at timestamptz NOT NULL DEFAULT now(),
    published_at    timestamptz,
    parked_at       timestamptz
);

CREATE INDEX outbox_events_job ON outbox_events (job_id);
CREATE INDEX outbox_events_due ON outbox_events (next_attempt_at) WHERE published_at IS NULL AND parked_at IS NULL;

-- +goose Down
DROP TABLE outbox_events;
DROP TABLE jobs;
DROP TABLE connections;
