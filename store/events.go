package store

import (
	"context"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

// eventRow is an event as the outbox keeps it.
type eventRow struct {
	ID    string
	JobID uuid.UUID
	Type  string
	Time  time.Time
	Data  []byte
	Trace string
}

// TableName names the table for GORM.
func (eventRow) TableName() string { return "outbox_events" }

func insertEvent(tx *gorm.DB, job uuid.UUID, ev Event) error {
	return tx.Create(&eventRow{ID: ev.ID, JobID: job, Type: ev.Type, Time: ev.Time, Data: ev.Data, Trace: ev.Trace}).Error
}

// Events returns the job's events, oldest first; none for a job that has not ended or does not exist.
func (s Jobs) Events(ctx context.Context, job uuid.UUID) ([]Event, error) {
	var rows []eventRow
	if err := s.db.WithContext(ctx).Where("job_id = ?", job).Order("time, id").Find(&rows).Error; err != nil {
		return nil, mapped("list events", err)
	}
	events := make([]Event, 0, len(rows))
	for _, r := range rows {
		events = append(events, Event{ID: r.ID, Type: r.Type, Time: r.Time, Data: r.Data, Trace: r.Trace})
	}
	return events, nil
}
