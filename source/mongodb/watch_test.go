package mongodb

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/fetcherhq/fetcher/source"
)

// TestBrokenOffLookSaysNothing waits for the failure itself when the driver breaks off a look at a server because of it.
func TestBrokenOffLookSaysNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(context.Background())
	w := &watch{giveUp: cancel}
	w.fail(fmt.Errorf("hello: %w", context.Canceled))
	if ctx.Err() != nil {
		t.Fatalf("the opening ended with %v", context.Cause(ctx))
	}
	w.fail(&tlsError{err: errors.New("bad certificate")})
	if e := w.explain(ctx, context.Cause(ctx)); e.Category != source.CategoryTLS {
		t.Errorf("category %s, want tls", e.Category)
	}
}
