-- +goose Up
-- Tenants that may have events to send. Written when a job's lease ends, in the same statement, so that a tenant with an
-- unsent event has a row here or a lease, which somebody ends.
CREATE TABLE event_marks (
    tenant_id     text PRIMARY KEY,
    generation    bigint NOT NULL DEFAULT 1, -- grows when the tenant is marked again
    marked_at     timestamptz NOT NULL DEFAULT now(),
    due_at        timestamptz NOT NULL DEFAULT now(),
    claim         uuid, -- of the dispatcher that looks
    claimed_until timestamptz,
    -- as the last dispatcher left the tenant's outbox
    pending       bigint NOT NULL DEFAULT 0,
    parked        bigint NOT NULL DEFAULT 0,
    oldest_at     timestamptz
);

CREATE INDEX event_marks_due ON event_marks (due_at);

-- Where a tenant's events are posted, sealed. No reference to tenants: these may be registered elsewhere.
CREATE TABLE tenant_webhooks (
    tenant_id  text PRIMARY KEY,
    sealed     bytea NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now()
);

-- +goose StatementBegin
CREATE FUNCTION tenants_forget_events() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM tenant_webhooks WHERE tenant_id = OLD.id;
    DELETE FROM event_marks WHERE tenant_id = OLD.id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER tenants_forget_events AFTER DELETE ON tenants
    FOR EACH ROW EXECUTE FUNCTION tenants_forget_events();

-- +goose Down
DROP TRIGGER tenants_forget_events ON tenants;
DROP FUNCTION tenants_forget_events();
DROP TABLE tenant_webhooks;
DROP TABLE event_marks;
