package e2e

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

// listener is an HTTP server that keeps what it is sent.
type listener struct {
	*httptest.Server

	mu     sync.Mutex
	got    []trace
	status int
	answer string
}

// listen starts one; over TLS if secure.
func listen(t *testing.T, sink string, secure bool) *listener {
	t.Helper()
	l := &listener{status: http.StatusOK}
	l.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			var err error
			if body, err = gzip.NewReader(r.Body); err != nil {
				t.Error(err)
				return
			}
		}
		content, err := io.ReadAll(body)
		if err != nil {
			return // the sender has gone
		}
		l.mu.Lock()
		l.got = append(l.got, trace{sink: sink, from: r.URL.Path, content: fmt.Appendf(nil, "%s %s\n%v\n%s", r.Method, r.URL, r.Header, content)})
		status, answer := l.status, l.answer
		l.mu.Unlock()
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	l.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	if secure {
		l.StartTLS()
	} else {
		l.Start()
	}
	t.Cleanup(l.Close)
	return l
}

func (l *listener) say(status int, answer string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status, l.answer = status, answer
}

func (l *listener) traces() []trace {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]trace(nil), l.got...)
}

func (l *listener) heard(text string) bool {
	for _, tr := range l.traces() {
		if bytes.Contains(tr.content, []byte(text)) {
			return true
		}
	}
	return false
}

// dump is a database as pg_dump writes it, bytea as hexadecimal digits.
func dump(t *testing.T, name, dsn string) trace {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "pg_dump", "--inserts", "--no-owner", dsn)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("pg_dump: %v: %s", err, stderr.String())
	}
	if !bytes.Contains(out, []byte("CREATE TABLE")) {
		t.Fatalf("the dump of %s is empty", name)
	}
	return trace{sink: "database", from: name, content: out}
}

// files are the objects below a directory, with their names.
func files(t *testing.T, root string) (out []trace) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		out = append(out, trace{sink: "object", from: strings.TrimPrefix(path, root), content: append([]byte(path+"\n"), content...)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// scraped is what a process tells Prometheus.
func scraped(t *testing.T, name, base string) trace {
	t.Helper()
	got := blackbox.Client{Base: base}.Expect(t, http.StatusOK, http.MethodGet, "/metrics", nil)
	return trace{sink: "metrics", from: name, content: got.Body}
}

func logOf(name string, p *blackbox.Process) trace {
	return trace{sink: "log", from: name, content: []byte(p.Output.String())}
}

// says runs a command to its end, whichever, and keeps what it prints.
func (r *redaction) says(t *testing.T, ok bool, env []string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary.Path, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + binary.Dir(), "TMPDIR=" + binary.Dir()}, env...)
	cmd.Dir = binary.Dir()
	out, err := cmd.CombinedOutput()
	if (err == nil) != ok {
		t.Fatalf("fetcher %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	r.keep(trace{sink: "command", from: strings.Join(args[:min(2, len(args))], " "), content: out})
	return string(out)
}
