package store

import (
	"context"

	"gorm.io/gorm"
)

// JobFilter narrows a listing of jobs. Its parts combine with AND.
type JobFilter struct {
	Window Window
	Page   Page
	Status *JobStatus // nil: any
	Source *string    // the product
}

// List returns one page of the jobs f describes, and how many there are on all pages together.
// Page and count are not taken at the same instant.
func (s Jobs) List(ctx context.Context, f JobFilter) ([]Job, int64, error) {
	matching := func() *gorm.DB { return f.apply(s.db.WithContext(ctx)) }
	var total int64
	if err := matching().Model(&Job{}).Count(&total).Error; err != nil {
		return nil, 0, mapped("count jobs", err)
	}
	page := []Job{}
	if err := f.Page.apply(matching()).Find(&page).Error; err != nil {
		return nil, 0, mapped("list jobs", err)
	}
	return page, total, nil
}

func (f JobFilter) apply(q *gorm.DB) *gorm.DB {
	q = f.Window.apply(q)
	if f.Status != nil {
		q = q.Where("status = ?", *f.Status)
	}
	if f.Source != nil {
		q = q.Where("source = ?", *f.Source)
	}
	return q
}
