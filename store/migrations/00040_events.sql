-- +goose Up
-- How far each event has come is kept for each transport, so that one that is down holds up no other.
DROP INDEX outbox_events_due;
ALTER TABLE outbox_events
    DROP COLUMN attempts,
    DROP COLUMN next_attempt_at,
    ADD COLUMN created_at timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN trace text NOT NULL DEFAULT '', -- W3C trace context of the run that wrote the event
    ADD COLUMN dispatched_at timestamptz;      -- its deliveries are listed

CREATE INDEX outbox_events_fresh ON outbox_events (created_at) WHERE dispatched_at IS NULL;
CREATE INDEX outbox_events_open ON outbox_events (created_at) WHERE published_at IS NULL AND parked_at IS NULL;
CREATE INDEX outbox_events_parked ON outbox_events (parked_at) WHERE parked_at IS NOT NULL;
CREATE INDEX outbox_events_published ON outbox_events (published_at) WHERE published_at IS NOT NULL;

CREATE TABLE event_deliveries (
    event_id        text NOT NULL REFERENCES outbox_events (id) ON DELETE CASCADE,
    transport       text NOT NULL,
    attempts        integer NOT NULL DEFAULT 0,
    begun_at        timestamptz NOT NULL DEFAULT now(), -- retries end a day later
    next_attempt_at timestamptz NOT NULL DEFAULT now(),
    delivered_at    timestamptz,
    parked_at       timestamptz,
    reason          text NOT NULL DEFAULT '', -- why the last attempt failed
    PRIMARY KEY (event_id, transport)
);

CREATE INDEX event_deliveries_due ON event_deliveries (transport, next_attempt_at) WHERE delivered_at IS NULL AND parked_at IS NULL;

-- A transport that failed rests, for all events together.
CREATE TABLE event_transports (
    transport    text PRIMARY KEY,
    failures     integer NOT NULL, -- in a row
    paused_until timestamptz NOT NULL
);

-- +goose Down
DROP TABLE event_transports;
DROP TABLE event_deliveries;
DROP INDEX outbox_events_published;
DROP INDEX outbox_events_parked;
DROP INDEX outbox_events_open;
DROP INDEX outbox_events_fresh;
ALTER TABLE outbox_events
    DROP COLUMN dispatched_at,
    DROP COLUMN trace,
    DROP COLUMN created_at,
    ADD COLUMN attempts integer NOT NULL DEFAULT 0,
    ADD COLUMN next_attempt_at timestamptz NOT NULL DEFAULT now();
CREATE INDEX outbox_events_due ON outbox_events (next_attempt_at) WHERE published_at IS NULL AND parked_at IS NULL;
