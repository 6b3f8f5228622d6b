-- +goose Up
-- Revisions come from one sequence, so that they also grow when an id is deleted and created anew.
CREATE SEQUENCE tenant_revisions;

CREATE TABLE tenants (
    id               text PRIMARY KEY CHECK (id ~ '^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$'),
    name             text NOT NULL DEFAULT '',
    status           text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'suspended', 'deleted')),
    dsn_sealed       bytea NOT NULL,
    max_conns        integer NOT NULL DEFAULT 0 CHECK (max_conns >= 0),
    max_running_jobs integer NOT NULL DEFAULT 0 CHECK (max_running_jobs >= 0),
    rate_limit       double precision NOT NULL DEFAULT 0 CHECK (rate_limit >= 0),
    revision         bigint NOT NULL DEFAULT 0,
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now()
);

-- +goose StatementBegin
CREATE FUNCTION tenants_revise() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.revision := nextval('tenant_revisions');
    NEW.updated_at := now();
    RETURN NEW;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION tenants_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('fetcher_tenants', coalesce(NEW.id, OLD.id));
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER tenants_revise BEFORE INSERT OR UPDATE ON tenants
    FOR EACH ROW EXECUTE FUNCTION tenants_revise();
CREATE TRIGGER tenants_notify AFTER INSERT OR UPDATE OR DELETE ON tenants
    FOR EACH ROW EXECUTE FUNCTION tenants_notify();

-- Who runs which job. A row past its time belongs to a worker that is gone.
CREATE TABLE job_leases (
    tenant_id  text NOT NULL,
    job_id     uuid NOT NULL,
    token      uuid NOT NULL UNIQUE,
    queue_id   bigint NOT NULL,
    worker_id  text NOT NULL,
    taken_at   timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, job_id)
);

CREATE INDEX job_leases_expires ON job_leases (expires_at);
CREATE INDEX job_leases_queue ON job_leases (queue_id);

-- +goose Down
DROP TABLE job_leases;
DROP TABLE tenants;
DROP FUNCTION tenants_notify();
DROP FUNCTION tenants_revise();
DROP SEQUENCE tenant_revisions;
