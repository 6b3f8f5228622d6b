package auth

import (
	"errors"
	"strings"
	"testing"

	"github.com/fetcherhq/fetcher/problem"
)

func TestParseBearer(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", maxTokenBytes)
	tests := map[string]struct {
		header  []string
		want    string
		missing bool
	}{
		"good":                  {header: []string{"Bearer a.b.c"}, want: "a.b.c"},
		"lower case":            {header: []string{"bearer a.b.c"}, want: "a.b.c"},
		"upper case":            {header: []string{"BEARER a.b.c"}, want: "a.b.c"},
		"spaces between":        {header: []string{"Bearer   a.b.c"}, want: "a.b.c"},
		"white space around":    {header: []string{" \tBearer a.b.c \t"}, want: "a.b.c"},
		"longest":               {header: []string{"Bearer " + long}, want: long},
		"too long":              {header: []string{"Bearer " + long + "a"}},
		"no line":               {missing: true},
		"empty line":            {header: []string{""}, missing: true},
		"blank line":            {header: []string{" \t "}, missing: true},
		"scheme only":           {header: []string{"Bearer"}, missing: true},
		"scheme and space":      {header: []string{"Bearer  "}, missing: true},
		"other scheme":          {header: []string{"Basic YTpi"}, missing: true},
		"token without scheme":  {header: []string{"a.b.c"}, missing: true},
		"scheme runs on":        {header: []string{"Bearera.b.c"}, missing: true},
		"tab after scheme":      {header: []string{"Bearer\ta.b.c"}, missing: true},
		"two lines":             {header: []string{"Bearer a.b.c", "Bearer a.b.c"}},
		"two lines, one empty":  {header: []string{"Bearer a.b.c", ""}},
		"two tokens":            {header: []string{"Bearer a.b.c d.e.f"}},
		"two credentials":       {header: []string{"Bearer a.b.c, Bearer a.b.c"}},
		"two lines, none ours":  {header: []string{"Basic YTpi", "Digest x"}},
		"three lines, all same": {header: []string{"Bearer a", "Bearer a", "Bearer a"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseBearer(tt.header)
			if got != tt.want {
				t.Errorf("token = %q, want %q", got, tt.want)
			}
			if (err == nil) != (tt.want != "") {
				t.Fatalf("err = %v", err)
			}
			if err == nil {
				return
			}
			if code := problem.CodeOf(err); code != problem.Unauthenticated {
				t.Errorf("code = %s", code)
			}
			if got := errors.Is(err, ErrNoToken); got != tt.missing {
				t.Errorf("errors.Is(err, ErrNoToken) = %v, want %v", got, tt.missing)
			}
		})
	}
}

func FuzzParseBearer(f *testing.F) {
	for _, s := range []string{"", "Bearer", "Bearer a.b.c", "bEaReR  x", "Bearer a b", "Basic YTpi", "Bearer \x00", "Bearer é"} {
		f.Add(s, s, 1)
	}
	f.Fuzz(func(t *testing.T, first, second string, lines int) {
		header := []string{first, second}[:max(0, min(lines, 2))]
		token, err := ParseBearer(header)
		if err != nil {
			if token != "" || problem.CodeOf(err) != problem.Unauthenticated {
				t.Fatalf("ParseBearer(%q) = %q, %v", header, token, err)
			}
			return
		}
		if len(header) != 1 || token == "" || len(token) > maxTokenBytes || strings.Contains(token, " ") {
			t.Fatalf("ParseBearer(%q) = %q", header, token)
		}
		if !strings.HasSuffix(strings.TrimRight(header[0], " \t"), token) {
			t.Fatalf("ParseBearer(%q) made up %q", header, token)
		}
	})
}
