package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// testGuide runs the commands of docs/api.md against the service and looks whether they were for every operation.
func testGuide(t *testing.T, s *apiSuite) {
	ids := make([]string, 0, len(operations()))
	for _, op := range operations() {
		ids = append(ids, op.id)
	}
	runGuide(t, s, "api.md", s.Tenant("globex").Tokens["admin"], ids)
}

// runGuide runs the commands of a guide, which are for the operations of those ids and no others.
func runGuide(t *testing.T, s *apiSuite, name, token string, ids []string) {
	t.Helper()
	for _, tool := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the guide's commands were not run: there is no %s", tool)
		}
	}
	guide, err := os.ReadFile(filepath.Join("..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(s.Info.API)
	if err != nil {
		t.Fatal(err)
	}
	var (
		mu   sync.Mutex
		done = map[string]bool{}
	)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(resp *http.Response) error {
		mu.Lock()
		defer mu.Unlock()
		if resp.StatusCode >= http.StatusBadRequest {
			done[fmt.Sprint("failed: ", resp.Request.Method, " ", resp.Request.URL.Path)] = true
			return nil
		}
		req, err := http.NewRequest(resp.Request.Method, apiHost+resp.Request.URL.Path, nil)
		if err != nil {
			return err
		}
		route, _, err := s.routes.FindRoute(req)
		if err != nil {
			return err
		}
		done[route.Operation.OperationID] = true
		return nil
	}
	recorder := httptest.NewServer(proxy)
	defer recorder.Close()

	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail")
	cmd.Dir = tempDir(t)
	cmd.Stdin = strings.NewReader(shellBlocks(string(guide)))
	cmd.Env = append(os.Environ(), "DEV="+filepath.Join(s.Dir, "dev.json"), "API="+recorder.URL, "TOKEN="+token)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, id := range ids {
		if !done[id] {
			t.Errorf("the guide does not do %s", id)
		}
		if !strings.Contains(string(guide), "`"+id+"`") {
			t.Errorf("the guide does not name %s", id)
		}
		delete(done, id)
	}
	if len(done) > 0 {
		t.Errorf("besides, it did: %v", done)
	}
}

// shellBlocks is the commands in the text.
func shellBlocks(markdown string) string { return blocks(markdown, "sh") }

// blocks is the code of one language in the text.
func blocks(markdown, language string) string {
	var out strings.Builder
	inside := false
	for line := range strings.Lines(markdown) {
		switch {
		case strings.HasPrefix(line, "```"):
			inside = strings.TrimSpace(line) == "```"+language
		case inside:
			out.WriteString(line)
		}
	}
	return out.String()
}
