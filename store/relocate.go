package store

import (
	"context"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

// Relocate tells that the connection's server now listens on another port, under the next revision. It asks nothing
// about jobs that use the connection: the database is the same, and they find it again by this. There being no such
// connection is no error.
func (s Connections) Relocate(ctx context.Context, id uuid.UUID, port int) error {
	err := s.live(ctx).Model(&Connection{}).Where("id = ?", id).UpdateColumns(map[string]any{
		"port": port, "revision": gorm.Expr("revision + 1"), "updated_at": now(),
	}).Error
	return mapped("relocate connection", err)
}
