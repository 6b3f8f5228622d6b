package connections

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/store"
)

// How often one connection may be tested, whoever asks and whichever process answers.
const (
	testsPerWindow = 10
	testWindow     = time.Minute
)

// TakeTest counts a test of a connection; FET-0008 when there were 10 within the minute before, until there is room
// again. What is refused does not count.
func (s *Service) TakeTest(ctx context.Context, db store.Connections, id uuid.UUID) error {
	wait, err := db.TakeTest(ctx, id, testsPerWindow, testWindow)
	if err != nil {
		return err
	}
	if wait > 0 {
		return problem.Newf(problem.RateLimited, "a connection may be tested %d times a minute", testsPerWindow).After(wait)
	}
	return nil
}
