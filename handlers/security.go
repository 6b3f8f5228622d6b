package handlers

import "github.com/gin-gonic/gin"

// secure sets the headers that every answer carries. Handlers that serve pages replace Cache-Control.
func secure(c *gin.Context) {
	header := c.Writer.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	if c.Request.TLS != nil {
		header.Set("Strict-Transport-Security", "max-age=31536000; includeSubDomains")
	}
	c.Next()
}
