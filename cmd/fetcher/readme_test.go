package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/fetcherhq/fetcher/config"
)

// TestReadme: the table of variables is the generated one, and no placeholder was left.
func TestReadme(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var table bytes.Buffer
	if err := config.WriteMarkdown(&table); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), tableBegin+table.String()+tableEnd) {
		t.Error("the table of variables is not the generated one: run make docs")
	}
	if strings.Contains(string(readme), "@@") {
		t.Error("a placeholder was left")
	}
}
