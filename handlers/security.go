package handlers

import "github.com/gin-gonic/gin"

// secure sets the headers that every answer carries. Handlers that serve pages replace Cache-Control. Answers share the
// values: whoever changes one puts another slice in its place.
func secure() gin.HandlerFunc {
	noSniff, noStore := []string{"nosniff"}, []string{"no-store"}
	return func(c *gin.Context) {
		header := c.Writer.Header()
		header["X-Content-Type-Options"] = noSniff
		header["Cache-Control"] = noStore
		if c.Request.TLS != nil {
			header.Set("Strict-Transport-Security", "max-age=31536000; includeSubDomains")
		}
		c.Next()
	}
}
