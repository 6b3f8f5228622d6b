// Package docs checks the documentation against the program, the chart and itself.
package docs

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/goccy/go-yaml"

	"github.com/fetcherhq/fetcher/config"
	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/testkit"
	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// pages are the documents for users, by their paths from here.
func pages(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("*.md")
	if err != nil || len(paths) < 10 {
		t.Fatalf("%v, %v", paths, err)
	}
	out := map[string]string{}
	for _, path := range append(paths, "../README.md", "../charts/fetcher/README.md") {
		out[path] = read(t, path)
	}
	return out
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

var fence = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")

// commands are the shell commands of a page, without prompts, continuation lines joined.
func commands(page string) []string {
	var out []string
	for _, block := range fence.FindAllStringSubmatch(page, -1) {
		text := strings.ReplaceAll(block[2], "\\\n", " ")
		for line := range strings.Lines(text) {
			prompted, isPrompt := strings.CutPrefix(strings.TrimSpace(line), "$ ")
			if block[1] == "sh" || block[1] == "console" && isPrompt {
				out = append(out, prompted)
			}
		}
	}
	return out
}

// words are a command's own words, up to what ends it.
func words(command string) []string {
	return strings.FieldsFunc(command, unicode.IsSpace)
}

// uses are the words behind the program in a command and the commands within it.
func uses(command, program string) [][]string {
	var out [][]string
	all := words(command)
	for i, word := range all {
		word = strings.TrimLeft(word, `"$('`)
		if word != program && word != "bin/"+program && word != "/"+program {
			continue
		}
		var rest []string
		for _, next := range all[i+1:] {
			if strings.ContainsAny(next[:1], "|&;>") {
				break
			}
			rest = append(rest, strings.TrimRight(next, `)"';`))
		}
		out = append(out, rest)
	}
	return out
}

// TestCommands: every `fetcher …` in a document is a command there is, with flags it has; every make target, value of
// the chart and file is there.
func TestCommands(t *testing.T) {
	t.Parallel()
	binary, err := blackbox.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	help := map[string]string{}
	explain := func(path ...string) string {
		name := strings.Join(path, " ")
		if _, ok := help[name]; !ok {
			out, err := exec.CommandContext(t.Context(), binary.Path, append(path, "--help")...).CombinedOutput()
			if err != nil {
				t.Fatalf("%s --help: %v\n%s", name, err, out)
			}
			help[name] = string(out)
		}
		return help[name]
	}
	makefile, values := read(t, "../Makefile"), chartValues(t)
	checked := 0
	for path, page := range pages(t) {
		inline := regexp.MustCompile("`(fetcher [a-z][^`]*)`").FindAllStringSubmatch(page, -1)
		all := commands(page)
		for _, match := range inline {
			all = append(all, match[1])
		}
		for _, command := range all {
			for _, args := range uses(command, "fetcher") {
				checked += checkUse(t, path, args, explain)
			}
			for _, args := range uses(command, "make") {
				if len(args) > 0 && !regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(args[0])+`:`).MatchString(makefile) {
					t.Errorf("%s: there is no make %s", path, args[0])
				}
			}
			if strings.HasPrefix(command, "helm ") {
				checkHelm(t, path, command, values)
			}
		}
	}
	if checked < 60 {
		t.Errorf("only %d commands were found", checked)
	}
}

// checkUse checks one use of the program, and returns 1 if it was one.
func checkUse(t *testing.T, path string, args []string, explain func(...string) string) int {
	t.Helper()
	if len(args) == 0 || !regexp.MustCompile(`^[a-z-]+$`).MatchString(args[0]) || strings.HasPrefix(args[0], "charts") {
		return 0
	}
	var command []string
	text := explain()
	for _, arg := range args {
		if !regexp.MustCompile(`(?m)^  `+regexp.QuoteMeta(arg)+` +[A-Z]`).MatchString(text) || strings.HasPrefix(arg, "-") {
			break
		}
		command = append(command, arg)
		text = explain(command...)
	}
	if len(command) == 0 {
		t.Errorf("%s: there is no fetcher %s", path, args[0])
		return 0
	}
	if strings.Contains(text, "\nAvailable Commands:") && len(args) > len(command) && regexp.MustCompile(`^[a-z]`).MatchString(args[len(command)]) && command[0] != "dev" {
		t.Errorf("%s: fetcher %s has no command %s", path, strings.Join(command, " "), args[len(command)])
	}
	for _, arg := range args[len(command):] {
		flag, _, _ := strings.Cut(arg, "=")
		if strings.HasPrefix(flag, "--") && !strings.Contains(text, flag+" ") {
			t.Errorf("%s: fetcher %s has no flag %s", path, strings.Join(command, " "), flag)
		}
	}
	return 1
}

func chartValues(t *testing.T) map[string]any {
	t.Helper()
	var values map[string]any
	if err := yaml.Unmarshal([]byte(read(t, "../charts/fetcher/values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// checkHelm checks that the values and files of a command are there.
func checkHelm(t *testing.T, path, command string, values map[string]any) {
	t.Helper()
	all := words(command)
	for i, word := range all[:len(all)-1] {
		next := all[i+1]
		switch word {
		case "--values":
			if _, err := os.Stat(filepath.Join("..", next)); err != nil && next != "…" {
				t.Errorf("%s: %v", path, err)
			}
		case "--set":
			name, _, _ := strings.Cut(next, "=")
			var at any = values
			for part := range strings.SplitSeq(name, ".") {
				if known()[strings.TrimPrefix(name, "config.")] {
					break
				}
				inner, ok := at.(map[string]any)
				if _, there := inner[part]; !ok || !there {
					t.Errorf("%s: the chart has no value %s", path, name)
					break
				}
				at = inner[part]
			}
		}
	}
}

// known is every variable the service reads.
func known() map[string]bool {
	out := map[string]bool{}
	for _, v := range (&config.Config{Datasources: []config.Datasource{{Name: "{NAME}"}}}).Variables() {
		out[v.Name] = true
		if v.Secret {
			out[v.Name+"_FILE"] = true
		}
	}
	return out
}

// TestNames: variables, codes and metrics that documents name exist.
func TestNames(t *testing.T) {
	t.Parallel()
	variables := known()
	metrics := read(t, "../e2e/testdata/metrics.txt")
	inCode := regexp.MustCompile("`([^`\n]+)`")
	variable := regexp.MustCompile(`^([A-Z][A-Z0-9]*(?:_[A-Z0-9{}]+)+)(?:=.*)?$`)
	foreign := regexp.MustCompile(`^(OTEL_|DATASOURCE_|TEST_|FETCHER_LOAD|BENCH|KATARA|NAME_FILE|INVALID_|SQL_|[A-Z]+_FAILED|POSTGRES_|WEBHOOK_|CE_|EXTERNAL_KEY)`)
	for path, page := range pages(t) {
		for _, span := range inCode.FindAllStringSubmatch(page, -1) {
			if match := variable.FindStringSubmatch(span[1]); match != nil && !variables[match[1]] && !foreign.MatchString(match[1]) && !isCode(t, match[1]) {
				t.Errorf("%s: nobody reads %s", path, match[1])
			}
		}
		for _, code := range regexp.MustCompile(`FET-\d{4}`).FindAllString(page, -1) {
			if _, ok := problem.Codes()[problem.Code(code)]; !ok {
				t.Errorf("%s: there is no code %s", path, code)
			}
		}
		for _, name := range regexp.MustCompile("`(fetcher_[a-z_]+)`").FindAllStringSubmatch(page, -1) {
			if !strings.Contains(metrics, "\n"+name[1]+" ") {
				t.Errorf("%s: there is no metric %s", path, name[1])
			}
		}
	}
}

// isCode reports whether a name in capitals is an error of the approved documents.
func isCode(t *testing.T, name string) bool {
	t.Helper()
	return strings.Contains(read(t, "../handlers/katara_error.go"), `"`+name+`"`)
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestLinks: every link within the repository leads to a file, and to a heading of it.
func TestLinks(t *testing.T) {
	t.Parallel()
	for path, page := range pages(t) {
		for _, match := range link.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(match[1], "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			if anchor != "" && !slices.Contains(anchors(read(t, target)), anchor) {
				t.Errorf("%s: %s has no heading #%s", path, target, anchor)
			}
		}
	}
}

// anchors are those of a document's headings, as they are made where it is read.
func anchors(page string) []string {
	var out []string
	for line := range strings.Lines(fence.ReplaceAllString(page, "")) {
		heading := strings.TrimLeft(line, "#")
		if heading == line || !strings.HasPrefix(heading, " ") {
			continue
		}
		anchor := strings.Map(func(r rune) rune {
			switch {
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			case r == ' ':
				return '-'
			}
			return -1
		}, strings.TrimSpace(heading))
		out = append(out, anchor)
	}
	return out
}

// TestAlerts: every alert is explained where it says, and nothing else is.
func TestAlerts(t *testing.T) {
	t.Parallel()
	var rules, headings []string
	for _, match := range regexp.MustCompile(`(?m)^      - alert: (\w+)$`).FindAllStringSubmatch(read(t, "../charts/fetcher/alerts/fetcher.yaml"), -1) {
		rules = append(rules, match[1])
	}
	_, section, _ := strings.Cut(read(t, "operations.md"), "\n# Alerts\n")
	for _, match := range regexp.MustCompile(`(?m)^## (\w+)$`).FindAllStringSubmatch(section, -1) {
		headings = append(headings, match[1])
	}
	slices.Sort(rules)
	slices.Sort(headings)
	if !slices.Equal(rules, headings) || len(rules) == 0 {
		t.Errorf("alerts %v\nheadings %v", rules, headings)
	}
}

// TestRunbook runs every command of the operators' page, in its order, against a deployment with many tenants.
func TestRunbook(t *testing.T) {
	t.Parallel()
	binary, err := blackbox.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	server := testkit.NewServer(t)
	database, restored := server.CreateDatabase(t, testkit.DatabaseOptions{CreateDB: true, CreateRole: true}).DSN, server.NewDatabase(t)
	script := "set -euo pipefail\n"
	for _, block := range fence.FindAllStringSubmatch(read(t, "operations.md"), -1) {
		if block[1] == "sh" {
			script += block[2]
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + filepath.Dir(binary.Path) + ":" + os.Getenv("PATH"), "HOME=" + dir,
		"DATABASE_URL=" + database, "RESTORE_URL=" + restored, "RESULTS_URL=file://" + filepath.Join(dir, "results"),
		"APP_ENC_KEY=MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", "MULTI_TENANT_ENABLED=true",
		"PLUGIN_AUTH_ENABLED=true", "PLUGIN_AUTH_ADDRESS=http://127.0.0.1:1",
	}
	migrate := exec.CommandContext(t.Context(), binary.Path, "migrate")
	migrate.Env = cmd.Env
	if out, err := migrate.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{"control database: up to date", "initech  ready", "suspended", "active"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("nobody said %q:\n%s", want, out.String())
		}
	}
}
