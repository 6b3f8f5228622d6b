// Package e2e holds black-box suites: they build the real binary, start it as a user would, and look only at what a
// user can see: HTTP answers, files the commands write, exit codes, and the databases through psql.
package e2e
