// Command fetcher is the gateway: one binary for the service, its worker, its administration and its demonstration.
//
// This package wires and nothing else: it is the only place where concrete parts meet. One file holds one command.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Set by the linker.
var (
	version = "dev"
	commit  = "none"
)

// Exit codes: 0 it worked, 1 it did not, 2 it was called wrongly or is not configured.
const (
	exitFailure = 1
	exitUsage   = 2
)

// usageError is a mistake in how the command was called or configured.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal starts an orderly stop; after it the default action is back, so a second ends at once.
	context.AfterFunc(ctx, stop)
	err := newRoot().ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "fetcher:", err)
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	return exitFailure
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "fetcher",
		Short:         "Multi-tenant data gateway: extracts from tenants' databases into encrypted, verified results",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(
		newServe(), newManager(), newWorker(), newDev(), newDemo(), newMigrate(), newTenant(),
		newKeys(), newConfig(), newHealthcheck(), newVersion(),
	)
	return root
}

// noArgs refuses arguments as a mistake in the call.
func noArgs(cmd *cobra.Command, args []string) error {
	if err := cobra.NoArgs(cmd, args); err != nil {
		return usageError{err}
	}
	return nil
}

// oneArg demands exactly one argument.
func oneArg(cmd *cobra.Command, args []string) error {
	if err := cobra.ExactArgs(1)(cmd, args); err != nil {
		return usageError{err}
	}
	return nil
}
