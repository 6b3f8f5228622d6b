package content_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/documents/content"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Each page of testdata becomes the Markdown beside it.
func TestGolden(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("testdata/*.html")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	for _, path := range pages {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := convert(t, "text/html", string(page))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		golden := strings.TrimSuffix(path, ".html") + ".md"
		text := string(got.Bytes) + "\n"
		if *update {
			if err = os.WriteFile(golden, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), text); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

// References are resolved as RFC 3986 has it, against https://docs.example.com:8443/docs/guide/page.
func TestLinks(t *testing.T) {
	t.Parallel()
	const origin = "https://docs.example.com:8443"
	for reference, want := range map[string]string{
		"https://a.example/b": "https://a.example/b", "http://a.example": "http://a.example", "//a.example/b": "https://a.example/b",
		"/b": origin + "/b", "b": origin + "/docs/guide/b", "./b": origin + "/docs/guide/b", "../b": origin + "/docs/b",
		"../../../../b": origin + "/b", "?q=a/b&c=d+e": origin + "/docs/guide/page?q=a/b&c=d+e", "#part": origin + "/docs/guide/page#part",
		"": origin + "/docs/guide/page", ";x": origin + "/docs/guide/;x", "b/./c/../d": origin + "/docs/guide/b/d",
		" \t/b\n": origin + "/b", "/b c": origin + "/b%20c", "/(b)": origin + "/%28b%29", "/ü?ü#ü": origin + "/%C3%BC?%C3%BC#%C3%BC",
		"/%41?%2f": origin + "/%41?%2f", "mailto:a@b.example": "mailto:a@b.example", "tel:+49": "tel:+49", "HTTP://a.example/": "http://a.example/",
		"/a|b": origin + "/a%7Cb", "/a\"b'c`d": origin + "/a%22b%27c%60d",

		"javascript:alert(1)": "", "JaVaScRiPt:alert(1)": "", " javascript:alert(1)": "", "java\nscript:alert(1)": "", "\x01javascript:alert(1)": "",
		"data:text/html,x": "", "vbscript:x": "", "file:///etc/passwd": "", "ftp://a.example/": "", "blob:https://a.example/1": "",
		"https:": "", "http://": "", "/%zz": "", "https://[a/": "",
	} {
		got, err := convert(t, "text/html", `<a href="`+strings.ReplaceAll(reference, `"`, "&quot;")+`">text</a>`)
		if err != nil {
			t.Fatal(err)
		}
		link := "[text](" + want + ")"
		if want == "" {
			link = "text"
		}
		if diff := cmp.Diff(link, string(got.Bytes)); diff != "" {
			t.Errorf("%q: %s", reference, diff)
		}
	}
}

// Nothing that runs, or loads what isn't on the web, comes through: neither as markup nor as text that reads like it.
func TestHostilePages(t *testing.T) {
	t.Parallel()
	for page, want := range map[string]string{
		`a<script>alert(1)</script>b`:                                    "ab",
		`a<script src=x></script>b`:                                      "ab",
		`a<style>p{}</style>b`:                                           "ab",
		`a<noscript><img src=x></noscript>b`:                             "ab",
		`a<iframe srcdoc="<script>x</script>"></iframe>b`:                "ab",
		`a<template><p>x</template>b`:                                    "ab",
		`a<svg><script>x</script><a href=y>z</a></svg>b`:                 "ab",
		`a<object data=x>y</object><embed src=x>b`:                       "ab",
		`a<!-- x -->b`:                                                   "ab",
		`<p onclick="x()" style="x">a</p>`:                               "a",
		`a<img src="data:image/png;base64,AAAA" alt=x>b`:                 "ab",
		`a<img src="javascript:x" alt=x>b`:                               "ab",
		`a<img alt=x>b`:                                                  "ab",
		`<img src=/x alt="a](javascript:x) ![b" title='"<c>'>`:           "![a (javascript:x) ! b](https://docs.example.com:8443/x \"c\")",
		`<img src=/x alt="a\\](javascript:x)">`:                          "![a (javascript:x)](https://docs.example.com:8443/x)",
		`<a href=/x title="a&quot; onclick=x">b</a>`:                     "[b](https://docs.example.com:8443/x \"a onclick=x\")",
		`<a href="/x)](javascript:y)">b</a>`:                             "[b](https://docs.example.com:8443/x%29%5D%28javascript:y%29)",
		`&lt;script&gt;alert(1)&lt;/script&gt;`:                          "&lt;script&gt;alert(1)&lt;/script&gt;",
		`&lt;javascript:alert(1)&gt;`:                                    "&lt;javascript:alert(1)&gt;",
		`[a](javascript:alert(1))`:                                       `\[a](javascript:alert(1))`,
		`<p>[a<br>b](javascript:alert(1))`:                               "\\[a  \nb](javascript:alert(1))",
		`![a](data:x)`:                                                   `!\[a](data:x)`,
		`[a]: javascript:alert(1)`:                                       `\[a]: javascript:alert(1)`,
		"a\ab\uf002c":                                                    "abc",
		`<base href="https://evil.example/"><a href=b>c</a>`:             "[c](https://docs.example.com:8443/docs/guide/b)",
		"<pre><code class='language-go\n&lt;script&gt;'>a\nb</code>":     "```go\na\nb\n```",
		"<pre><code class='language-&lt;script&gt;'>a</code>":            "```\na\n```",
		"<pre>a\n```\n[b](javascript:x)":                                 "````\na\n```\n[b](javascript:x)\n````",
		`<ol start=99999999999999999999><li>a</ol>`:                      "1. a",
		`<ol start=-5><li>a</ol>`:                                        "1. a",
		`<table><tr><td colspan=999999999>a<tr><td>b</table>`:            "|  |\n|---|\n| a |\n| b |",
		`<a href=/b><a href=/c>d</a></a>`:                                "[](https://docs.example.com:8443/b)[d](https://docs.example.com:8443/c)",
		`<table><tr><th>a|b<th>c<tr><td><script>x</script>d<td></table>`: "| a\\|b | c |\n|---|---|\n| d |  |",
	} {
		got, err := convert(t, "text/html", page)
		if err != nil {
			t.Errorf("%q: %v", page, err)
			continue
		}
		if diff := cmp.Diff(want, string(got.Bytes)); diff != "" {
			t.Errorf("%q: %s", page, diff)
		}
	}
}

func TestXHTML(t *testing.T) {
	t.Parallel()
	const page = `<?xml version="1.0"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml"><head><title>t</title>
<script src="a.js" type='text/javascript' /></head><body><p>a<br />b<span/>c</p><div id="x"/><p>d</p></body></html>`
	got, err := convert(t, "application/xhtml+xml; charset=utf-8", page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("a  \nbc\n\nd", string(got.Bytes)); diff != "" {
		t.Error(diff)
	}
}

// What a page may cost is bounded, whatever it is made of.
func TestBounds(t *testing.T) {
	t.Parallel()
	const most = 4 << 20
	for name, c := range map[string]struct {
		page string
		want content.Code
	}{
		"4 MiB":                    {"<p>x<!--" + strings.Repeat("a", most-11) + "-->", ""},
		"4 MiB and one":            {"<p>x<!--" + strings.Repeat("a", most-10) + "-->", content.TooLarge},
		"400 elements":             {strings.Repeat("<div>", 400) + "x", ""},
		"600 elements":             {strings.Repeat("<div>", 600) + "x", content.Invalid},
		"600 elements, closed":     {strings.Repeat("<span>", 600) + "x" + strings.Repeat("</span>", 600), content.Invalid},
		"600 inline elements":      {strings.Repeat("<b><i>", 300) + "x", content.Invalid},
		"600 lists":                {strings.Repeat("<ul><li>", 300) + "x", content.Invalid},
		"600 tables":               {strings.Repeat("<table><tr><td>", 200) + "x", content.Invalid},
		"a million elements":       {strings.Repeat("<div>", most/5), content.Invalid},
		"400 quotations":           {strings.Repeat("<blockquote>", 400) + "x", ""},
		"much in 400 quotations":   {strings.Repeat("<blockquote>", 400) + strings.Repeat("x<br>", 1<<16), content.Invalid},
		"many links, long URLs":    {strings.Repeat("<a href=/"+strings.Repeat("ü", 5000)+">x</a>", 300), content.TooLarge},
		"a table of a row":         {"<table><tr>" + strings.Repeat("<td>x", 1<<14), ""},
		"a table of long rows":     {"<table><tr>" + strings.Repeat("<td>", 1<<14) + strings.Repeat("<tr>", 1<<14), ""},
		"a table of spans":         {"<table>" + strings.Repeat("<tr><td rowspan=65534 colspan=1000>x", 1<<12), ""},
		"a wide cell, many rows":   {"<table><tr><td>" + strings.Repeat("x", 1<<18) + strings.Repeat("<tr><td>", 1<<14), ""},
		"comments between letters": {strings.Repeat("a<!---->", 1<<16), ""},
		"brackets":                 {strings.Repeat("[", 1<<18), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := convert(t, "text/html", c.page)
			if diff := cmp.Diff(c.want, code(t, err)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
