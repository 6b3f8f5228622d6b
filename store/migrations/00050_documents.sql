-- +goose Up
CREATE TABLE environments (
    id         uuid PRIMARY KEY,
    name       text NOT NULL,
    created_at timestamptz NOT NULL
);

CREATE INDEX environments_created ON environments (created_at, id);

CREATE TABLE sources (
    id             uuid PRIMARY KEY,
    environment_id uuid NOT NULL REFERENCES environments (id),
    name           text NOT NULL,
    status         text NOT NULL CHECK (status IN ('connected', 'disconnected')),
    approval_id    uuid NOT NULL,
    revision       bigint NOT NULL,
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL
);

CREATE INDEX sources_created ON sources (environment_id, created_at, id);

CREATE TABLE approvals (
    id          uuid PRIMARY KEY,
    source_id   uuid NOT NULL REFERENCES sources (id),
    origin      text NOT NULL,
    path_prefix text NOT NULL,
    approved_by text NOT NULL,
    approved_at timestamptz NOT NULL,
    CONSTRAINT approvals_of_source UNIQUE (source_id, id)
);

-- A source and its first approval name each other; that they do is looked at when both are there.
ALTER TABLE sources ADD CONSTRAINT sources_approval FOREIGN KEY (id, approval_id)
    REFERENCES approvals (source_id, id) DEFERRABLE INITIALLY DEFERRED;

CREATE TABLE fetches (
    id              uuid PRIMARY KEY,
    environment_id  uuid NOT NULL,
    source_id       uuid NOT NULL REFERENCES sources (id),
    url             text NOT NULL,
    object_id       uuid NOT NULL,
    attempt         integer NOT NULL,
    status          text NOT NULL CHECK (status IN ('running', 'succeeded', 'refused', 'failed')),
    changed         boolean,
    version         bigint,
    media_type      text,
    size_bytes      bigint,
    error_code      text,
    upstream_status integer,
    approval_id     uuid NOT NULL REFERENCES approvals (id),
    actor           text NOT NULL,
    -- until when a running fetch holds its slot and its page
    lease_until     timestamptz NOT NULL,
    started_at      timestamptz NOT NULL,
    finished_at     timestamptz,
    CONSTRAINT fetches_ended CHECK ((status = 'running') = (finished_at IS NULL)),
    CONSTRAINT fetches_stored CHECK ((status = 'succeeded') = (version IS NOT NULL AND changed IS NOT NULL)),
    CONSTRAINT fetches_error CHECK ((status IN ('refused', 'failed')) = (error_code IS NOT NULL))
);

CREATE INDEX fetches_source_started ON fetches (source_id, started_at, id);
CREATE INDEX fetches_started ON fetches (started_at); -- how many there were within a minute
CREATE UNIQUE INDEX fetches_running ON fetches (source_id, url) WHERE status = 'running'; -- one per page

CREATE TABLE objects (
    environment_id  uuid NOT NULL REFERENCES environments (id),
    id              uuid NOT NULL,
    source_id       uuid NOT NULL REFERENCES sources (id),
    url             text NOT NULL,
    bound           boolean NOT NULL DEFAULT true,
    version         bigint NOT NULL,
    created_at      timestamptz NOT NULL,
    last_fetch_id   uuid NOT NULL REFERENCES fetches (id),
    last_fetched_at timestamptz NOT NULL,
    -- of the newest fetch that brought the bytes
    etag            text NOT NULL,
    full_fetched_at timestamptz NOT NULL,
    declared_type   text NOT NULL,
    fetched_bytes   bigint NOT NULL,
    PRIMARY KEY (environment_id, id)
);

CREATE UNIQUE INDEX objects_page ON objects (source_id, url) WHERE bound;
CREATE INDEX objects_source_created ON objects (source_id, created_at, id) WHERE bound;

-- Never collected: versions are never deleted.
CREATE TABLE content_blobs (
    sha256      bytea PRIMARY KEY,
    object_key  text NOT NULL,
    size_bytes  bigint NOT NULL,
    hmac        text NOT NULL,
    key_version integer NOT NULL
);

CREATE TABLE versions (
    environment_id uuid NOT NULL,
    object_id      uuid NOT NULL,
    version        bigint NOT NULL CHECK (version > 0),
    sha256         bytea NOT NULL REFERENCES content_blobs (sha256),
    media_type     text NOT NULL,
    size_bytes     bigint NOT NULL,
    created_at     timestamptz NOT NULL,
    created_by     text NOT NULL,
    fetch_id       uuid NOT NULL REFERENCES fetches (id),
    PRIMARY KEY (environment_id, object_id, version),
    FOREIGN KEY (environment_id, object_id) REFERENCES objects (environment_id, id)
);

CREATE TABLE audit_events (
    id             uuid PRIMARY KEY,
    at             timestamptz NOT NULL DEFAULT now(),
    environment_id uuid NOT NULL,
    actor          text NOT NULL,
    actor_kind     text NOT NULL,
    action         text NOT NULL,
    source_id      uuid,
    object_id      uuid,
    fetch_id       uuid,
    approval_id    uuid,
    version        bigint
);

-- +goose StatementBegin
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % never change', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;
-- +goose StatementEnd

CREATE TRIGGER approvals_immutable BEFORE UPDATE OR DELETE ON approvals FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER versions_immutable BEFORE UPDATE OR DELETE ON versions FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_events_immutable BEFORE UPDATE OR DELETE ON audit_events FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- The answers to mutations of web documents that carried a key.
CREATE TABLE mutation_keys (
    -- SHA-256 of who asked for what under which key
    scope        bytea PRIMARY KEY,
    -- SHA-256 of the request; requests hold nothing that is worth guessing
    fingerprint  bytea NOT NULL,
    -- of the attempt that owns the key: whoever lost it can't write the answer any more
    operation_id uuid NOT NULL,
    attempt      integer NOT NULL,
    lease_until  timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    status       integer,
    location     text NOT NULL DEFAULT '',
    etag         text NOT NULL DEFAULT '',
    body         bytea
);

CREATE INDEX mutation_keys_expiry ON mutation_keys (expires_at);

-- +goose Down
DROP TABLE mutation_keys, audit_events, versions, content_blobs, objects, fetches;
ALTER TABLE sources DROP CONSTRAINT sources_approval;
DROP TABLE approvals, sources, environments;
DROP FUNCTION refuse_change;
