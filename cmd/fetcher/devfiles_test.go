package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEnvFile: what is written reads back the same, by us and by a shell.
func TestEnvFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "env")
	variables := map[string]string{"PLAIN": "a b", "QUOTES": "'it's'", "EMPTY": "", "DOLLAR": "$HOME `x` \\ \"", "EQUALS": "a='b'=c"}
	if err := writeEnvFile(path, variables); err != nil {
		t.Fatal(err)
	}
	got, err := readEnvFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]string, 0, len(variables))
	for name, value := range variables {
		want = append(want, name+"="+value)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", `. "$1"; printf '%s\n' "DOLLAR=$DOLLAR" "EMPTY=$EMPTY" "EQUALS=$EQUALS" "PLAIN=$PLAIN" "QUOTES=$QUOTES"`, "sh", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")); diff != "" {
		t.Error(diff)
	}
	if err := writeEnvFile(path, map[string]string{"BAD": "a\nb"}); err == nil {
		t.Error("a value of two lines is accepted")
	}
}
