-- +goose Up
-- What waits, and what is held back, of each tenant. The expressions are those of the queries in fair.go.
CREATE INDEX river_job_fetcher_waiting ON river_job ((args ->> 'tenantId'), priority, scheduled_at, id)
    WHERE kind = 'extract' AND state = 'available';
CREATE INDEX river_job_fetcher_held ON river_job ((args ->> 'tenantId'), id)
    WHERE kind = 'extract' AND state = 'scheduled';
CREATE INDEX job_leases_tenant ON job_leases (tenant_id, expires_at);

-- +goose Down
DROP INDEX job_leases_tenant;
DROP INDEX river_job_fetcher_held;
DROP INDEX river_job_fetcher_waiting;
