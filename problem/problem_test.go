package problem_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/problem"
)

func TestErrorKeepsItsCauseToItself(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("reading: %w", problem.Wrap(io.ErrUnexpectedEOF, problem.Unavailable, "try again"))
	if !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(err, problem.New(problem.Unavailable, "")) {
		t.Errorf("%v hides what it wraps", err)
	}
	if errors.Is(err, problem.New(problem.Internal, "")) {
		t.Error("two codes count as the same")
	}
	p, ok := errors.AsType[*problem.Error](err)
	if !ok || p.Detail != "try again" || strings.Contains(p.Detail, io.ErrUnexpectedEOF.Error()) {
		t.Errorf("detail %q", p.Detail)
	}
	if got := problem.CodeOf(err); got != "FET-0003" {
		t.Errorf("code %s", got)
	}
	if got := problem.CodeOf(io.EOF); got != "FET-0002" {
		t.Errorf("an error without a code has %s", got)
	}
}

func TestWithSortsAndCopies(t *testing.T) {
	t.Parallel()
	first := problem.New(problem.Malformed, "no").With(problem.Field{Location: "body.port", Message: "b"})
	second := first.With(problem.Field{Location: "body.host", Message: "a"}).After(time.Second)
	want := []problem.Field{{Location: "body.host", Message: "a"}, {Location: "body.port", Message: "b"}}
	if diff := cmp.Diff(want, second.Fields); diff != "" {
		t.Error(diff)
	}
	if len(first.Fields) != 1 || first.RetryAfter != 0 || second.RetryAfter != time.Second {
		t.Errorf("With or After changed its receiver: %+v, %+v", first, second)
	}
}

// TestCatalogue pins the published statuses.
func TestCatalogue(t *testing.T) {
	t.Parallel()
	want := map[int]string{
		400: "0001 0400 0401 0402 0403 0404 0405 0406 0407 0408 0409 0410 0411 0412 0413 0414 1014 1016 1020 1061",
		401: "0006 1080", 403: "0007 1083", 404: "0005 1001 1062 1081", 405: "0417", 409: "0004 1002 1015 1021 1022 1023",
		410: "1024", 412: "1090", 413: "0416", 415: "0415", 416: "0418", 422: "0419 1040 1060", 429: "0008", 500: "0002",
		503: "0003 1082", 0: "1025 1026 1027 1028 1029 1030 1031",
	}
	n := 0
	for status, codes := range want {
		for code := range strings.FieldsSeq(codes) {
			n++
			info := problem.Code("FET-" + code).Info()
			if info.Status != status || info.Meaning == "" {
				t.Errorf("FET-%s has status %d and the meaning %q, want %d", code, info.Status, info.Meaning, status)
			}
		}
	}
	if got := len(problem.Codes()); got != n {
		t.Errorf("the catalogue has %d codes, the contract %d", got, n)
	}
}
