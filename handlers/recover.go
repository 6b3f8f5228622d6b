package handlers

import (
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/gin-gonic/gin"

	"github.com/fetcherhq/fetcher/problem"
)

// recover turns a panic into FET-0002. A deliberate cut of the connection passes through.
func (e *edge) recover(c *gin.Context) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(http.ErrAbortHandler)
		}
		ctx := c.Request.Context()
		e.log.LogAttrs(ctx, slog.LevelError, "panic",
			slog.String("stack", string(debug.Stack())))
		e.refuse(c, problem.Wrap(problem.Panicked(v), problem.Internal, ""))
	}()
	c.Next()
}
