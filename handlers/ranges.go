package handlers

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/fetcherhq/fetcher/problem"
)

// byteRange is a part of a result, never an empty one.
type byteRange struct {
	first, length int64
}

// contentRange is the part as the header of that name tells it.
func (r byteRange) contentRange(size int64) string {
	return fmt.Sprintf("bytes %d-%d/%d", r.first, r.first+r.length-1, size)
}

// rangeError is FET-0418 with what goes into its Content-Range.
type rangeError struct {
	error // a *problem.Error

	size int64
}

func newRangeError(size int64) error {
	fault := problem.New(problem.RangeNotSatisfiable, "the requested range lies outside the result").
		With(problem.Field{Location: "header.Range", Message: "lies outside the result"})
	return &rangeError{error: fault, size: size}
}

// Unwrap returns the fault.
func (f *rangeError) Unwrap() error { return f.error }

// parseRange reads which part of a representation of size bytes a request asks for, as RFC 9110 has it: nil is the
// whole, for requests without a range, with one that is malformed or in another unit, with several, for methods other
// than GET, and when If-Range names another representation than tag. FET-0418: there is no byte in the range.
func parseRange(method string, header http.Header, tag string, size int64) (*byteRange, error) {
	lines := header.Values("Range")
	if method != http.MethodGet || len(lines) != 1 {
		return nil, nil //nolint:nilnil // the whole is a value of its own
	}
	if condition := header.Values("If-Range"); len(condition) > 0 {
		// Compared strongly; there is no date of last modification that one could match.
		if len(condition) > 1 || strings.TrimSpace(condition[0]) != tag {
			return nil, nil //nolint:nilnil // see above
		}
	}
	unit, set, ok := strings.Cut(lines[0], "=")
	if !ok || !strings.EqualFold(strings.TrimSpace(unit), "bytes") {
		return nil, nil //nolint:nilnil // see above
	}
	var only string
	for spec := range strings.SplitSeq(set, ",") {
		spec = strings.Trim(spec, " \t")
		switch {
		case spec == "": // lists may have empty elements
		case only != "":
			return nil, nil //nolint:nilnil // see above
		default:
			only = spec
		}
	}
	first, last, ok := strings.Cut(only, "-")
	switch {
	case !ok:
		return nil, nil //nolint:nilnil // see above
	case first == "":
		return suffixRange(last, size)
	default:
		return plainRange(first, last, size)
	}
}

// plainRange reads FIRST-LAST or FIRST-.
func plainRange(first, last string, size int64) (*byteRange, error) {
	from, ok := position(first)
	to := int64(math.MaxInt64)
	if ok && last != "" {
		to, ok = position(last)
	}
	if !ok || to < from {
		return nil, nil //nolint:nilnil // malformed: the whole
	}
	if from >= size {
		return nil, newRangeError(size)
	}
	return &byteRange{first: from, length: min(to, size-1) - from + 1}, nil
}

// suffixRange reads -LENGTH. The last bytes of an empty representation are the whole of it.
func suffixRange(length string, size int64) (*byteRange, error) {
	n, ok := position(length)
	switch {
	case !ok, n > 0 && size == 0:
		return nil, nil //nolint:nilnil // malformed, or the whole
	case n == 0:
		return nil, newRangeError(size)
	}
	n = min(n, size)
	return &byteRange{first: size - n, length: n}, nil
}

// position reads digits; a number beyond any size is the largest one.
func position(text string) (int64, bool) {
	if !digits.MatchString(text) {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return math.MaxInt64, true
	}
	return n, true
}

// partReader reads one part of a result and releases the whole with it.
type partReader struct {
	io.Reader
	io.Closer
}
