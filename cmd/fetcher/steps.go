package main

import (
	"fmt"
	"io"

	"github.com/schollz/progressbar/v3"
)

// steps prints what a demonstration does, one line a step.
type steps struct{ out io.Writer }

func newSteps(out io.Writer) *steps { return &steps{out} }

// do runs one step and prints its outcome.
func (s *steps) do(title string, run func() (string, error)) error {
	outcome, err := run()
	if err != nil {
		fmt.Fprintf(s.out, "FAILED  %s\n", title)
		return err
	}
	fmt.Fprintf(s.out, "ok      %s: %s\n", title, outcome)
	return nil
}

// bar is a progress bar over a known number of rows.
type bar struct {
	drawn *progressbar.ProgressBar
	out   io.Writer
}

func (s *steps) bar(title string, total int64) bar {
	return bar{out: s.out, drawn: progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(s.out),
		progressbar.OptionSetDescription("        "+title),
		progressbar.OptionSetWidth(30),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionUseANSICodes(false),
	)}
}

// set shows that done rows are through. Drawing is decoration: an output that can't be drawn on stops nothing.
func (b bar) set(done int64) { _ = b.drawn.Set64(min(done, b.drawn.GetMax64())) }

// finish shows the end, whatever the estimate was.
func (b bar) finish(done int64) {
	b.drawn.ChangeMax64(max(done, 1))
	_ = b.drawn.Set64(max(done, 1))
	fmt.Fprintln(b.out)
}
