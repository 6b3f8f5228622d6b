package handlers

import (
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"

	"github.com/fetcherhq/fetcher/problem"
)

// assets holds the bundle of the documentation page, if `make assets` ran before the build.
//
//go:embed assets
var assets embed.FS

//go:embed pages
var pages embed.FS

const (
	docsBundle = "assets/standalone.js"

	// pagePolicy lets a page use what this service serves and nothing else. Scalar sets styles from its script.
	pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; " +
		"font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

// mountDocs serves the documentation, open to anybody. Every answer is made once, here.
func (e *edge) mountDocs(router gin.IRoutes) error {
	asJSON, err := json.Marshal(e.api.OpenAPI(), json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("write OpenAPI document: %w", err)
	}
	asYAML, err := e.api.OpenAPI().YAML()
	if err != nil {
		return fmt.Errorf("write OpenAPI document: %w", err)
	}
	router.GET("/swagger/openapi.json", static(mediaJSON, asJSON))
	router.GET("/swagger/openapi.yaml", static("application/yaml", asYAML))
	start, err := pages.ReadFile("pages/start.js")
	if err != nil {
		return err
	}
	router.GET("/swagger/assets/start.js", static("text/javascript; charset=utf-8", start))
	page := "pages/docs.html"
	if bundle, missing := fs.ReadFile(assets, docsBundle); missing == nil {
		router.GET("/swagger/assets/standalone.js", static("text/javascript; charset=utf-8", bundle))
	} else {
		page = "pages/missing.html"
	}
	html, err := pages.ReadFile(page)
	if err != nil {
		return err
	}
	router.GET("/swagger/docs", static("text/html; charset=utf-8", html))
	return e.mountProblems(router)
}

func static(mediaType string, content []byte) gin.HandlerFunc {
	return func(c *gin.Context) {
		c.Header("Cache-Control", "no-cache")
		c.Header("Content-Security-Policy", pagePolicy)
		c.Data(http.StatusOK, mediaType, content)
	}
}

// mountProblems serves the page of every code, where the type of an error points to by default.
func (e *edge) mountProblems(router gin.IRoutes) error {
	page, err := template.ParseFS(pages, "pages/problem.html")
	if err != nil {
		return err
	}
	rendered := map[string]gin.HandlerFunc{}
	for code, info := range problem.Codes() {
		var b strings.Builder
		err := page.Execute(&b, map[string]any{
			"Code": code, "Meaning": info.Meaning, "Status": info.Status, "Title": http.StatusText(info.Status),
		})
		if err != nil {
			return err
		}
		rendered[string(code)] = static("text/html; charset=utf-8", []byte(b.String()))
	}
	router.GET("/problems/:code", func(c *gin.Context) {
		if serve, ok := rendered[c.Param("code")]; ok {
			serve(c)
			return
		}
		e.noRoute(c)
	})
	return nil
}
