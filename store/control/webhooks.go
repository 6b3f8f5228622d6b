package control

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/fetcherhq/fetcher/store/internal/pgerr"
)

// ErrNoWebhook says that the tenant has no webhook.
var ErrNoWebhook = errors.New("control: the tenant has no webhook")

// SetWebhook stores where the tenant's events are posted, sealed, in place of what was there.
func (d *DB) SetWebhook(ctx context.Context, tenantID string, sealed []byte) error {
	_, err := d.pool.Exec(ctx, `
		INSERT INTO tenant_webhooks (tenant_id, sealed) VALUES ($1, $2)
		ON CONFLICT (tenant_id) DO UPDATE SET sealed = excluded.sealed, updated_at = now()`, tenantID, sealed)
	return pgerr.Wrap("set webhook", err)
}

// Webhook returns the tenant's webhook, sealed, or ErrNoWebhook.
func (d *DB) Webhook(ctx context.Context, tenantID string) (sealed []byte, err error) {
	err = d.pool.QueryRow(ctx, `SELECT sealed FROM tenant_webhooks WHERE tenant_id = $1`, tenantID).Scan(&sealed)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrNoWebhook
	}
	return sealed, pgerr.Wrap("get webhook", err)
}

// RemoveWebhook removes the tenant's webhook. ErrNoWebhook: there is none.
func (d *DB) RemoveWebhook(ctx context.Context, tenantID string) error {
	tag, err := d.pool.Exec(ctx, `DELETE FROM tenant_webhooks WHERE tenant_id = $1`, tenantID)
	if err == nil && tag.RowsAffected() == 0 {
		return ErrNoWebhook
	}
	return pgerr.Wrap("remove webhook", err)
}
