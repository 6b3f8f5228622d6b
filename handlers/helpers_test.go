package handlers

import (
	"bytes"
	"errors"
	"testing"

	"github.com/fetcherhq/fetcher/problem"
)

// checkFault fails unless err has the code and its first field the location.
func checkFault(t *testing.T, err error, code problem.Code, location string) {
	t.Helper()
	var fault *problem.Error
	if !errors.As(err, &fault) || fault.Code != code {
		t.Fatalf("error %v, want %s", err, code)
	}
	if len(fault.Fields) == 0 || fault.Fields[0].Location != location {
		t.Errorf("fields %v, want the location %s", fault.Fields, location)
	}
}

func letters(n int) string { return string(bytes.Repeat([]byte("k"), n)) }
