package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fetcherhq/fetcher/secret"
)

// keepKey returns the master key of a development gateway, made on the first run.
func keepKey(path string) (string, error) {
	content, err := os.ReadFile(path) // #nosec G304 -- below the data directory
	if err == nil {
		return strings.TrimSpace(string(content)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the master key: %w", err)
	}
	key := secret.GenerateKey()
	return key, writePrivate(path, key+"\n")
}

// writePrivate puts content at path, mode 0600. A reader sees the old file or the whole new one.
func writePrivate(path, content string) error {
	next := path + ".new"
	if err := os.WriteFile(next, []byte(content), 0o600); err != nil { // #nosec G703 -- below the data directory
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	return nil
}

// writeEnvFile keeps the variables as lines a shell can evaluate.
func writeEnvFile(path string, variables map[string]string) error {
	var b strings.Builder
	names := make([]string, 0, len(variables))
	for name := range variables {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if strings.ContainsAny(variables[name], "\n\x00") {
			return usageError{errors.New(name + " must be one line")}
		}
		fmt.Fprintf(&b, "export %s='%s'\n", name, strings.ReplaceAll(variables[name], "'", `'\''`))
	}
	return writePrivate(path, b.String())
}

// readEnvFile reads what writeEnvFile wrote, as os.Environ would give it.
func readEnvFile(path string) ([]string, error) {
	content, err := os.ReadFile(path) // #nosec G304 -- below the data directory
	if err != nil {
		return nil, fmt.Errorf("reading the environment: %w", err)
	}
	var environ []string
	for line := range strings.Lines(string(content)) {
		name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "export "), "='")
		if ok {
			environ = append(environ, name+"="+strings.ReplaceAll(strings.TrimSuffix(value, "'"), `'\''`, "'"))
		}
	}
	return environ, nil
}

// fileURL is the file:// form of a path.
func fileURL(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("finding the absolute path: %w", err)
	}
	return (&url.URL{Scheme: "file", Path: abs}).String(), nil
}
