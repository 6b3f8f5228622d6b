package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// webSettings are the variables by which the sample pages can be fetched, besides what the caller's environment allows.
func (g *devGateway) webSettings(given map[string]string) (map[string]string, error) {
	var theirs map[string]string
	if !g.opts.disposable {
		theirs = given
	}
	roots, err := g.webRoots(theirs["FETCH_DEV_ROOT_CA"])
	if err != nil {
		return nil, err
	}
	ports, own := theirs["FETCH_ALLOWED_PORTS"], strconv.Itoa(g.site.Port())
	if ports == "" {
		ports = "443"
	}
	if !slices.Contains(strings.Split(strings.ReplaceAll(ports, " ", ""), ","), own) {
		ports += "," + own
	}
	return map[string]string{"FETCH_DEV_ROOT_CA": roots, "FETCH_ALLOWED_PORTS": ports}, nil
}

// webRoots is a PEM file of the authorities in the caller's and of the one of the sample pages.
func (g *devGateway) webRoots(theirs string) (string, error) {
	roots, err := filepath.Abs(g.site.CAFile())
	if err != nil {
		return "", fmt.Errorf("finding the absolute path: %w", err)
	}
	if theirs == "" {
		return roots, nil
	}
	var both [][]byte
	for _, path := range []string{theirs, roots} {
		pem, err := os.ReadFile(path) // #nosec G304 G703 -- the developer names the file
		if err != nil {
			return "", usageError{errors.New("FETCH_DEV_ROOT_CA: the file can't be read")}
		}
		both = append(both, pem)
	}
	roots = filepath.Join(filepath.Dir(roots), "roots.pem")
	return roots, writePrivate(roots, string(bytes.Join(both, []byte("\n"))))
}
