// Package handlers owns HTTP in and out: the router, the order of the stages in front of every operation, the one
// place where errors become answers, the operations themselves (one file per resource), the OpenAPI document made
// from them, and the health endpoints.
//
// It touches the packages below only through the small interfaces in options.go and the request's lease, and holds no
// state of a tenant. It promises that nothing reaches an operation without a verified token, a permission and a lease
// of the token's own tenant, and that no answer carries the text of an internal cause.
package handlers
