package problem

import (
	"errors"
	"fmt"
	"runtime"
)

// Panicked describes a value that was recovered from a panic, for logs: by its type alone, because its own words may
// quote a value, a secret or an address. The runtime's words, such as an index out of range, are kept.
func Panicked(v any) error {
	if e, ok := v.(runtime.Error); ok {
		return errors.New("panic: " + e.Error())
	}
	return fmt.Errorf("panic: %T", v)
}
