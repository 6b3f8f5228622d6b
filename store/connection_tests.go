package store

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// takeTest counts a test unless the latest ones are too many, in one atomic statement and by the database's clock, so
// that it holds for all processes together. Times are kept no longer than they count.
const takeTest = `
INSERT INTO connection_tests AS t (connection_id, taken, allowed) VALUES (@id, ARRAY[clock_timestamp()], true)
ON CONFLICT (connection_id) DO UPDATE SET (taken, allowed) = (
	SELECT CASE WHEN cardinality(recent) < @most THEN recent || clock_timestamp() ELSE recent END, cardinality(recent) < @most
	FROM (SELECT ARRAY(SELECT at FROM unnest(t.taken) AS at WHERE at > clock_timestamp() - @window * interval '1 second'
		ORDER BY at) AS recent) AS latest)
RETURNING allowed, extract(epoch FROM taken[1] - clock_timestamp())::float8 + @window AS wait`

// TakeTest counts one test of the connection unless there have been most within the window before; then it returns how
// long it takes until there is room for one, else 0. Refused ones don't count.
func (s Connections) TakeTest(ctx context.Context, id uuid.UUID, most int, window time.Duration) (time.Duration, error) {
	var outcome struct {
		Allowed bool
		Wait    float64 // seconds
	}
	err := s.db.WithContext(ctx).Raw(takeTest, map[string]any{"id": id, "most": most, "window": window.Seconds()}).
		Scan(&outcome).Error
	if err != nil {
		return 0, mapped("count connection test", err)
	}
	if outcome.Allowed {
		return 0, nil
	}
	return max(time.Duration(outcome.Wait*float64(time.Second)), time.Millisecond), nil
}
