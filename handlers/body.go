package handlers

import (
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humagin"
	"github.com/gin-gonic/gin"

	"github.com/fetcherhq/fetcher/problem"
)

// bodyTimeout bounds the reading of a body.
const bodyTimeout = 30 * time.Second

// readBody takes in the whole body, up to the limit, before anything else looks at the request. Operations that take
// none have theirs read and dropped, so that the connection can serve on.
func (e *edge) readBody(ctx huma.Context, next func(huma.Context)) {
	c := humagin.Unwrap(ctx)
	takesBody := operationOf(ctx).body != nil
	if takesBody && !isJSON(c.Request.Header) {
		e.refuse(c, problem.New(problem.UnsupportedMediaType, "the content type must be application/json"))
		return
	}
	body, err := slurp(c, e.opts.MaxBodyBytes)
	if err != nil {
		e.refuse(c, err)
		return
	}
	if takesBody {
		exchangeOf(ctx.Context()).body = body
	}
	next(ctx)
}

// slurp reads the body, which may have limit bytes.
func slurp(c *gin.Context, limit int64) ([]byte, error) {
	if c.Request.Body == nil || c.Request.Body == http.NoBody {
		return nil, nil
	}
	if c.Request.ContentLength > limit {
		return nil, tooLarge(c, limit)
	}
	body, err := io.ReadAll(io.LimitReader(c.Request.Body, limit+1))
	if err != nil {
		c.Header("Connection", "close")
		return nil, problem.Wrap(err, problem.Malformed, "the body ended early or took too long")
	}
	if int64(len(body)) > limit {
		return nil, tooLarge(c, limit)
	}
	_ = http.NewResponseController(c.Writer).SetReadDeadline(time.Time{}) // the one that begin set
	return body, nil
}

// tooLarge also ends the connection: the rest of the body is not worth reading.
func tooLarge(c *gin.Context, limit int64) error {
	c.Header("Connection", "close")
	return problem.Newf(problem.BodyTooLarge, "the body is larger than %d bytes", limit)
}

// isJSON accepts no content type at all, application/json and its +json relatives, in UTF-8, without a coding.
func isJSON(header http.Header) bool {
	switch coding := header.Values("Content-Encoding"); {
	case len(coding) == 0:
	case len(coding) == 1 && (coding[0] == "" || strings.EqualFold(coding[0], "identity")):
	default:
		return false
	}
	lines := header.Values(headerType)
	if len(lines) == 0 || len(lines) == 1 && strings.TrimSpace(lines[0]) == "" {
		return true
	}
	media, params, err := mime.ParseMediaType(lines[0])
	if err != nil || len(lines) > 1 {
		return false
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return false
	}
	return media == mediaJSON || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")
}
