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
	"time"

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
	ctx, stop := untilSignalled()
	defer stop()
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

// signalEcho is how long repeated signals count as one: a terminal or a supervisor may signal a process twice at once,
// by itself and with its group.
const signalEcho = 500 * time.Millisecond

// untilSignalled returns a context that the first signal to stop ends. A second one ends the process at once.
func untilSignalled() (context.Context, context.CancelFunc) {
	// A reader of our output that has gone must not keep us from cleaning up.
	signal.Ignore(syscall.SIGPIPE)
	ctx, cancel := context.WithCancel(context.Background())
	received := make(chan os.Signal, 1)
	signal.Notify(received, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-received
		cancel()
		for first := time.Now(); ; {
			<-received
			if time.Since(first) > signalEcho {
				os.Exit(exitFailure)
			}
		}
	}()
	return ctx, cancel
}

// group is a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown command %q; see %s --help", args[0], cmd.CommandPath())}
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(commands...)
	return cmd
}

func newRoot() *cobra.Command {
	root := group("fetcher", "Multi-tenant data gateway: extracts from tenants' databases into encrypted, verified results",
		newServe(), newManager(), newWorker(), newDev(), newDemo(), newMigrate(), newTenant(),
		newKeys(), newResult(), newEvents(), newConfig(), newHealthcheck(), newVersion(),
	)
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
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
