package handlers

import (
	"regexp"
	"time"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
)

var dateForm = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`)

// parseWindow reads the creation-date window. There always is one: what is not given follows from the other date or
// from today, and what is too wide loses its beginning.
func (r pageRules) parseWindow(q queryParams) (store.Window, error) {
	start, err := parseDate(q, "startDate")
	if err != nil {
		return store.Window{}, err
	}
	end, err := parseDate(q, "endDate")
	if err != nil {
		return store.Window{}, err
	}
	switch {
	case start == nil && end == nil:
		tomorrow := r.now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1)
		return store.Window{Start: monthsBefore(tomorrow, r.months), End: tomorrow}, nil
	case end == nil:
		return store.Window{Start: *start, End: start.AddDate(0, 0, 1)}, nil
	case start == nil:
		return store.Window{Start: monthsBefore(*end, r.months), End: *end}, nil
	case start.After(*end):
		return store.Window{}, queryFault(problem.DateRangeInvalid, "startDate", "must not be after endDate")
	}
	w := store.Window{Start: *start, End: *end}
	if w.Start.Equal(w.End) {
		w.End = w.End.AddDate(0, 0, 1)
	}
	if earliest := monthsBefore(w.End, r.months); w.Start.Before(earliest) {
		w.Start = earliest
	}
	return w, nil
}

// parseDate reads a day as its midnight in UTC; nil when the parameter is absent.
func parseDate(q queryParams, name string) (*time.Time, error) {
	text := q[name]
	if text == "" {
		return nil, nil //nolint:nilnil // no date is a value of its own
	}
	day, err := time.Parse(time.DateOnly, text)
	if err != nil || !dateForm.MatchString(text) || day.Year() < 1 {
		return nil, queryFault(problem.DateInvalid, name, "must be a date of the form YYYY-MM-DD")
	}
	return &day, nil
}

// monthsBefore goes n calendar months back; a day that month does not have becomes its last.
func monthsBefore(day time.Time, n int) time.Time {
	first := time.Date(day.Year(), day.Month(), 1, 0, 0, 0, 0, time.UTC).AddDate(0, -n, 0)
	last := first.AddDate(0, 1, -1).Day()
	return first.AddDate(0, 0, min(day.Day(), last)-1)
}
