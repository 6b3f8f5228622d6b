package handlers

import (
	"context"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/fetcherhq/fetcher/connections"
	"github.com/fetcherhq/fetcher/store"
)

const headerIfMatch = "If-Match"

// ifMatchParam documents the precondition.
func ifMatchParam() *huma.Param {
	return &huma.Param{
		Name: headerIfMatch, In: inHeader, Description: "Only if the connection's ETag is one of these; `*` is any.",
		Schema: &huma.Schema{Type: huma.TypeString},
	}
}

// ifMatch is the request's precondition on a connection; nil when there is none.
func ifMatch(ctx context.Context) connections.Condition {
	lines := exchangeOf(ctx).request.Header.Values(headerIfMatch)
	if len(lines) == 0 {
		return nil
	}
	return func(c *store.Connection) bool { return matchesStrongly(lines, etag(c.Revision)) }
}

// matchesStrongly compares as If-Match asks: weak tags match nothing, and neither does what is no tag.
func matchesStrongly(lines []string, tag string) bool {
	for candidate := range strings.SplitSeq(strings.Join(lines, ","), ",") {
		candidate = strings.TrimSpace(candidate)
		if candidate == "*" || candidate == tag {
			return true
		}
	}
	return false
}
