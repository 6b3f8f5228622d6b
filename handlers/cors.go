package handlers

import (
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
)

// What a page of an allowed origin may send and read beyond the headers that browsers always allow.
const (
	corsMethods = "DELETE, GET, HEAD, PATCH, POST"
	corsSent    = "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, If-Range, Range, " +
		"Traceparent, Tracestate, X-Product-Name, X-Request-Id"
	corsExposed = "Location, ETag, X-Request-Id, Retry-After, Idempotent-Replayed"
	corsMaxAge  = "600" // seconds a browser may remember a preflight
)

// cors lets pages of the listed origins call the API. Tokens travel in a header that the page sets, never in cookies,
// so that credentials are not allowed.
type cors struct{ origins map[string]struct{} }

func newCORS(origins []string) *cors {
	c := &cors{origins: make(map[string]struct{}, len(origins))}
	for _, origin := range origins {
		c.origins[origin] = struct{}{}
	}
	return c
}

// handle answers preflights, which carry no token, before authentication, and marks every other answer to an allowed
// origin. Requests of other origins are served as if there were no CORS: it is the browser that keeps the answer back.
func (c *cors) handle(ctx *gin.Context) {
	header := ctx.Writer.Header()
	header.Add("Vary", "Origin")
	sent := ctx.Request.Header.Values("Origin")
	if len(sent) != 1 || !c.allowed(sent[0]) {
		ctx.Next()
		return
	}
	header.Set("Access-Control-Allow-Origin", sent[0])
	if !isPreflight(ctx.Request) {
		header.Set("Access-Control-Expose-Headers", corsExposed)
		ctx.Next()
		return
	}
	header.Set("Vary", strings.Join([]string{"Origin", "Access-Control-Request-Method", "Access-Control-Request-Headers"}, ", "))
	header.Set("Access-Control-Allow-Methods", corsMethods)
	header.Set("Access-Control-Allow-Headers", corsSent)
	header.Set("Access-Control-Max-Age", corsMaxAge)
	header.Del("Allow") // the router's, of a route that does not have the method
	ctx.AbortWithStatus(http.StatusNoContent)
}

func (c *cors) allowed(origin string) bool {
	_, ok := c.origins[origin]
	return ok
}

func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}
