package main

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// every calls f with the path of every command there is.
func every(cmd *cobra.Command, path []string, f func(path []string, cmd *cobra.Command)) {
	f(path, cmd)
	for _, child := range cmd.Commands() {
		every(child, append(slices.Clip(path), child.Name()), f)
	}
}

// TestEveryCommand: each explains itself, and refuses a flag it does not have as wrong usage, which is exit code 2.
func TestEveryCommand(t *testing.T) {
	t.Parallel()
	count := 0
	every(newRoot(), nil, func(path []string, cmd *cobra.Command) {
		count++
		name := "fetcher " + strings.Join(path, " ")
		if cmd.Short == "" {
			t.Errorf("%s does not say what it is for", name)
		}
		help, err := execute(append(path, "--help")...)
		if err != nil || !strings.Contains(help, "Usage:\n  "+strings.TrimSpace(name)) {
			t.Errorf("%s --help: %v\n%s", name, err, help)
		}
		_, err = execute(append(path, "--no-such-flag")...)
		if _, ok := errors.AsType[usageError](err); !ok {
			t.Errorf("%s --no-such-flag: %v", name, err)
		}
	})
	if count < 25 {
		t.Errorf("only %d commands were found", count)
	}
}

// TestCompletion: every shell's completion script is printed.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out, err := execute("completion", shell); err != nil || !strings.Contains(out, "fetcher") {
			t.Errorf("completion %s: %v, %d bytes", shell, err, len(out))
		}
	}
}

func execute(args ...string) (string, error) {
	root := newRoot()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.Execute()
	return out.String(), err
}
