// Package deploy reads the Dockerfile, compose.yaml and the workflows with the parsers of those who run them.
package deploy

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// TestDockerfile: BuildKit reads it without a warning; the last stage starts from nothing and as an ordinary user.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	read, err := parser.Parse(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range read.Warnings {
		t.Errorf("%s", w.Short)
	}
	lint := linter.New(&linter.Config{Warn: func(name, _, _, message string, _ []parser.Range) { t.Errorf("%s: %s", name, message) }})
	stages, _, err := instructions.Parse(read.AST, lint)
	if err != nil {
		t.Fatal(err)
	}
	last := stages[len(stages)-1]
	if last.BaseName != "scratch" {
		t.Errorf("the image is based on %s", last.BaseName)
	}
	found := map[string]bool{}
	for _, command := range last.Commands {
		found[command.Name()] = true
		if user, ok := command.(*instructions.UserCommand); ok && user.User != "65532:65532" {
			t.Errorf("the image runs as %s", user.User)
		}
	}
	for _, name := range []string{"USER", "HEALTHCHECK", "ENTRYPOINT"} {
		if !found[name] && !found[lower(name)] {
			t.Errorf("the image has no %s: %v", name, found)
		}
	}
}

func lower(s string) string { return string(bytes.ToLower([]byte(s))) }

// TestCompose: Compose reads the file, and every service it needs is there.
func TestCompose(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	content, err := os.ReadFile("../../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{"compose.yaml": string(content), ".secrets/s3.env": "A=b\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	options, err := cli.NewProjectOptions([]string{filepath.Join(dir, "compose.yaml")}, cli.WithWorkingDirectory(dir), cli.WithResolvedPaths(true))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	service, err := project.GetService("fetcher")
	if err != nil {
		t.Fatal(err)
	}
	if !service.ReadOnly || len(service.CapDrop) != 1 || len(service.Secrets) != 2 {
		t.Errorf("the service: read only %v, drops %v, secrets %v", service.ReadOnly, service.CapDrop, service.Secrets)
	}
	if len(project.Services) != 4 {
		t.Errorf("services: %v", project.ServiceNames())
	}
}
