package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/fetcherhq/fetcher/config"
)

// The table of variables stands between these lines of a document.
const (
	tableBegin = "<!-- begin: fetcher config docs -->\n"
	tableEnd   = "<!-- end: fetcher config docs -->\n"
)

func newConfig() *cobra.Command {
	return group("config", "Check or document the configuration", newConfigCheck(), newConfigDocs())
}

func newConfigCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Validate the environment and print what is in effect, secrets masked",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(config.RoleManager | config.RoleWorker)
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, v := range cfg.Variables() {
				fmt.Fprintf(w, "%s\t%s\n", v.Name, v.Value)
			}
			return w.Flush()
		},
	}
}

func newConfigDocs() *cobra.Command {
	var into string
	cmd := &cobra.Command{
		Use:   "docs",
		Short: "Print the table of every variable",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if into == "" {
				return config.WriteMarkdown(cmd.OutOrStdout())
			}
			return replaceTable(into)
		},
	}
	cmd.Flags().StringVar(&into, "into", "", "replace the table between the markers of this file")
	return cmd
}

func replaceTable(path string) error {
	content, err := os.ReadFile(path) // #nosec G304 -- the user names the file
	if err != nil {
		return fmt.Errorf("reading the document: %w", err)
	}
	before, rest, begins := bytes.Cut(content, []byte(tableBegin))
	_, after, ends := bytes.Cut(rest, []byte(tableEnd))
	if !begins || !ends {
		return usageError{errors.New(path + " has no markers for the table")}
	}
	var out bytes.Buffer
	out.Write(before)
	out.WriteString(tableBegin)
	if err := config.WriteMarkdown(&out); err != nil {
		return err
	}
	out.WriteString(tableEnd)
	out.Write(after)
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil { // #nosec G306 -- a document
		return fmt.Errorf("writing the document: %w", err)
	}
	return nil
}

// loadConfig reads the process's environment for a role.
func loadConfig(role config.Role) (*config.Config, error) {
	cfg, err := config.Load(os.Environ(), role, serviceRules(role)...)
	if err != nil {
		return nil, usageError{err}
	}
	return cfg, nil
}
