package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const defaultDataDir = ".fetcher"

// layout is where a development gateway keeps what: paths below its data directory.
type layout string

func (l layout) postgres() string { return filepath.Join(string(l), "postgres") }
func (l layout) identity() string { return filepath.Join(string(l), "identity") }
func (l layout) results() string  { return filepath.Join(string(l), "results") }
func (l layout) content() string  { return filepath.Join(string(l), "content") }
func (l layout) site() string     { return filepath.Join(string(l), "site") }
func (l layout) key() string      { return filepath.Join(string(l), "master.key") }
func (l layout) env() string      { return filepath.Join(string(l), "env") }

func addDataDir(f *pflag.FlagSet, dir *string) {
	f.StringVar(dir, "data-dir", defaultDataDir, "where the development gateway keeps everything")
}

func newDevEnv() *cobra.Command {
	var dataDir string
	cmd := &cobra.Command{
		Use:   "env",
		Short: "Print the export lines with which other commands run beside the development gateway",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			content, err := os.ReadFile(layout(dataDir).env())
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("no development gateway has run in %s", dataDir)
			}
			if err != nil {
				return fmt.Errorf("reading the environment: %w", err)
			}
			_, err = cmd.OutOrStdout().Write(content)
			return err
		},
	}
	addDataDir(cmd.Flags(), &dataDir)
	return cmd
}
