package problem_test

import (
	"errors"
	"testing"

	"github.com/fetcherhq/fetcher/problem"
)

func TestPanicked(t *testing.T) {
	t.Parallel()
	var none []int
	for name, tt := range map[string]struct {
		panics func()
		want   string
	}{
		"text":    {func() { panic("password hunter2") }, "panic: string"},
		"error":   {func() { panic(errors.New("host 10.1.2.3")) }, "panic: *errors.errorString"},
		"runtime": {func() { _ = none[len(name(t))] }, "panic: runtime error: index out of range [12] with length 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if got := problem.Panicked(recover()).Error(); got != tt.want {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			}()
			tt.panics()
		})
	}
}

// name is a value the compiler does not know.
func name(t *testing.T) string { return t.Name() }
