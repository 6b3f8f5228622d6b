package handlers

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/problem"
)

func TestParseRange(t *testing.T) {
	t.Parallel()
	const tag = `"abc"`
	part := func(first, length int64) *byteRange { return &byteRange{first: first, length: length} }
	for name, tc := range map[string]struct {
		method  string // empty: GET
		ranges  []string
		ifRange []string
		size    int64
		want    *byteRange // nil: the whole
		refused bool
	}{
		"none":                    {size: 100},
		"first bytes":             {ranges: []string{"bytes=0-9"}, size: 100, want: part(0, 10)},
		"one byte":                {ranges: []string{"bytes=99-99"}, size: 100, want: part(99, 1)},
		"open end":                {ranges: []string{"bytes=90-"}, size: 100, want: part(90, 10)},
		"all, open end":           {ranges: []string{"bytes=0-"}, size: 100, want: part(0, 100)},
		"end beyond":              {ranges: []string{"bytes=90-1000"}, size: 100, want: part(90, 10)},
		"end far beyond":          {ranges: []string{"bytes=90-99999999999999999999999"}, size: 100, want: part(90, 10)},
		"last bytes":              {ranges: []string{"bytes=-10"}, size: 100, want: part(90, 10)},
		"more than all last":      {ranges: []string{"bytes=-1000"}, size: 100, want: part(0, 100)},
		"far more than all last":  {ranges: []string{"bytes=-99999999999999999999999"}, size: 100, want: part(0, 100)},
		"unit in capitals":        {ranges: []string{"Bytes=0-9"}, size: 100, want: part(0, 10)},
		"blanks around":           {ranges: []string{"bytes= 0-9 "}, size: 100, want: part(0, 10)},
		"empty elements":          {ranges: []string{"bytes=,0-9, ,"}, size: 100, want: part(0, 10)},
		"starts at the end":       {ranges: []string{"bytes=100-"}, size: 100, refused: true},
		"starts beyond":           {ranges: []string{"bytes=500-600"}, size: 100, refused: true},
		"starts far beyond":       {ranges: []string{"bytes=99999999999999999999999-"}, size: 100, refused: true},
		"both far beyond":         {ranges: []string{"bytes=99999999999999999999998-99999999999999999999999"}, size: 100, refused: true},
		"no last byte":            {ranges: []string{"bytes=-0"}, size: 100, refused: true},
		"of nothing":              {ranges: []string{"bytes=0-"}, size: 0, refused: true},
		"last of nothing":         {ranges: []string{"bytes=-5"}, size: 0},
		"no last byte of nothing": {ranges: []string{"bytes=-0"}, size: 0, refused: true},
		"several":                 {ranges: []string{"bytes=0-1,5-6"}, size: 100},
		"several beyond":          {ranges: []string{"bytes=500-501,600-"}, size: 100},
		"two lines":               {ranges: []string{"bytes=0-1", "bytes=5-6"}, size: 100},
		"backwards":               {ranges: []string{"bytes=9-5"}, size: 100},
		"other unit":              {ranges: []string{"rows=0-9"}, size: 100},
		"no unit":                 {ranges: []string{"0-9"}, size: 100},
		"no range":                {ranges: []string{"bytes="}, size: 100},
		"no dash":                 {ranges: []string{"bytes=5"}, size: 100},
		"dash alone":              {ranges: []string{"bytes=-"}, size: 100},
		"words":                   {ranges: []string{"bytes=a-b"}, size: 100},
		"sign":                    {ranges: []string{"bytes=+1-5"}, size: 100},
		"two dashes":              {ranges: []string{"bytes=1-2-3"}, size: 100},
		"hexadecimal":             {ranges: []string{"bytes=0x1-5"}, size: 100},
		"blank inside":            {ranges: []string{"bytes=1 -5"}, size: 100},
		"HEAD":                    {method: http.MethodHead, ranges: []string{"bytes=0-9"}, size: 100},
		"HEAD beyond":             {method: http.MethodHead, ranges: []string{"bytes=500-"}, size: 100},
		"if the same":             {ranges: []string{"bytes=0-9"}, ifRange: []string{tag}, size: 100, want: part(0, 10)},
		"if the same, beyond":     {ranges: []string{"bytes=500-"}, ifRange: []string{tag}, size: 100, refused: true},
		"if another":              {ranges: []string{"bytes=0-9"}, ifRange: []string{`"xyz"`}, size: 100},
		"if another, beyond":      {ranges: []string{"bytes=500-"}, ifRange: []string{`"xyz"`}, size: 100},
		"if weakly the same":      {ranges: []string{"bytes=0-9"}, ifRange: []string{"W/" + tag}, size: 100},
		"if one of several":       {ranges: []string{"bytes=0-9"}, ifRange: []string{tag + `, "xyz"`}, size: 100},
		"if any":                  {ranges: []string{"bytes=0-9"}, ifRange: []string{"*"}, size: 100},
		"if since":                {ranges: []string{"bytes=0-9"}, ifRange: []string{"Wed, 21 Oct 2015 07:28:00 GMT"}, size: 100},
		"if twice":                {ranges: []string{"bytes=0-9"}, ifRange: []string{tag, tag}, size: 100},
		"if empty":                {ranges: []string{"bytes=0-9"}, ifRange: []string{""}, size: 100},
		"if alone":                {ifRange: []string{tag}, size: 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			method := tc.method
			if method == "" {
				method = http.MethodGet
			}
			header := http.Header{"Range": tc.ranges, "If-Range": tc.ifRange}
			got, err := parseRange(method, header, tag, tc.size)
			if tc.refused {
				if problem.CodeOf(err) != problem.RangeNotSatisfiable || err.(*rangeError).size != tc.size {
					t.Fatalf("range %v, error %v", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(byteRange{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParseRange(f *testing.F) {
	f.Add("bytes=0-9", int64(100))
	f.Add("bytes=-5", int64(0))
	f.Add("bytes=,5-,", int64(7))
	f.Fuzz(func(t *testing.T, text string, size int64) {
		if size < 0 {
			return
		}
		got, err := parseRange(http.MethodGet, http.Header{"Range": {text}}, `"x"`, size)
		switch {
		case err != nil && problem.CodeOf(err) != problem.RangeNotSatisfiable:
			t.Fatal(err)
		case got == nil:
		case got.first < 0, got.length < 1, got.first > size-got.length:
			t.Fatalf("%q of %d bytes is %+v", text, size, *got)
		}
	})
}
