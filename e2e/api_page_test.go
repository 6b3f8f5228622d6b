package e2e

import (
	"bufio"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"
)

// testDocumentationPage opens /swagger/docs as a person would and looks at what it shows and where it gets that from.
func testDocumentationPage(t *testing.T, s *apiSuite) {
	c := caller{suite: s, base: s.Info.API}
	for _, path := range []string{"/swagger/openapi.json", "/swagger/openapi.yaml"} {
		document, err := openapi3.NewLoader().LoadFromData(c.succeeds(t, http.StatusOK, get(path)).Body)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if err := document.Validate(t.Context()); err != nil || document.OpenAPI != "3.1.0" {
			t.Errorf("%s, version %s: %v", path, document.OpenAPI, err)
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(s.document.Paths.Map())), slices.Sorted(maps.Keys(document.Paths.Map()))); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	page := string(c.succeeds(t, http.StatusOK, get("/swagger/docs")).Body)
	if strings.Contains(page, "make assets") {
		for _, part := range []string{"openapi.json", "openapi.yaml"} {
			if !strings.Contains(page, part) {
				t.Errorf("the page without the bundle does not lead to %s: %s", part, page)
			}
		}
		t.Skip("not opened in a browser: the bundle of the page is not built in (make assets)")
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("not opened in a browser: there is no chromium")
	}
	b := startBrowser(t, chromium)
	b.open(t, s.Info.API+"/swagger/docs")
	var summaries []string
	for _, item := range s.document.Paths.Map() {
		for _, op := range item.Operations() {
			summaries = append(summaries, op.Summary)
		}
	}
	var text string
	missing := func() []string {
		text = b.text(t)
		return slices.DeleteFunc(slices.Clone(summaries), func(summary string) bool { return strings.Contains(text, summary) })
	}
	for deadline := time.Now().Add(30 * time.Second); len(missing()) > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("the page does not show %q:\n%.3000s", missing(), text)
		}
		<-time.After(100 * time.Millisecond)
	}
	if len(b.requested) < 4 { // the page, two scripts, the document
		t.Errorf("the browser requested only %v", b.requested)
	}
	for _, address := range b.requested {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if own := "http://" + u.Host; own != s.Info.API && u.Scheme != "data" && u.Scheme != "blob" {
			t.Errorf("the page asked %s for something: %s", u.Host, address)
		}
	}
	for _, line := range b.complaints {
		t.Errorf("the browser complains: %s", line)
	}
}

// browser is a headless Chromium, controlled over pipes in the DevTools protocol. Names other than ours lead nowhere.
type browser struct {
	in      *os.File
	out     *bufio.Reader
	session string
	last    int

	requested  []string // addresses, in order
	complaints []string // what the page's policy or scripts made it say
}

func startBrowser(t *testing.T, path string) *browser {
	t.Helper()
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	dir := tempDir(t)
	cmd := exec.CommandContext(t.Context(), path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--window-size=1600,1200", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1", "--user-data-dir="+filepath.Join(dir, "profile"), "--remote-debugging-pipe")
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	cmd.Env = append(os.Environ(), "HOME="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = theirIn.Close(), theirOut.Close()
	b := &browser{in: in, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		_, _ = in.Close(), out.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	// A browser that hangs must not hang the test.
	if err := out.SetReadDeadline(time.Now().Add(50 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var target struct{ TargetID string }
	b.call(t, "Target.createTarget", object{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call(t, "Target.attachToTarget", object{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Network", "Log", "Runtime", "Page"} {
		b.call(t, domain+".enable", nil, nil)
	}
	return b
}

func (b *browser) open(t *testing.T, address string) {
	t.Helper()
	var opened struct{ ErrorText string }
	b.call(t, "Page.navigate", object{"url": address}, &opened)
	if opened.ErrorText != "" {
		t.Fatalf("opening %s: %s", address, opened.ErrorText)
	}
}

// text is what the page shows.
func (b *browser) text(t *testing.T) string {
	t.Helper()
	var got struct{ Result struct{ Value string } }
	b.call(t, "Runtime.evaluate", object{"expression": "document.body ? document.body.textContent : ''"}, &got)
	return got.Result.Value
}

// call sends a command and takes what comes until its answer is among it.
func (b *browser) call(t *testing.T, method string, params, into any) {
	t.Helper()
	b.last++
	message := object{"id": b.last, "method": method}
	if params != nil {
		message["params"] = params
	}
	if b.session != "" {
		message["sessionId"] = b.session
	}
	if _, err := b.in.WriteString(text(t, message) + "\x00"); err != nil {
		t.Fatalf("telling the browser: %v", err)
	}
	for {
		raw, err := b.out.ReadBytes(0)
		if err != nil {
			t.Fatalf("%s: hearing the browser: %v", method, err)
		}
		var got struct {
			ID     int             `json:"id"`
			Method string          `json:"method"`
			Result json.RawMessage `json:"result"`
			Error  *struct {
				Message string `json:"message"`
			} `json:"error"`
			Params struct {
				Request struct {
					URL string `json:"url"`
				} `json:"request"`
				Entry struct {
					Level string `json:"level"`
					Text  string `json:"text"`
					URL   string `json:"url"`
				} `json:"entry"`
			} `json:"params"`
		}
		if err := json.Unmarshal(raw[:len(raw)-1], &got); err != nil {
			t.Fatal(err)
		}
		switch {
		case got.Method == "Network.requestWillBeSent":
			b.requested = append(b.requested, got.Params.Request.URL)
		case got.Method == "Log.entryAdded" && got.Params.Entry.Level == "error" && !strings.HasSuffix(got.Params.Entry.URL, "/favicon.ico"):
			b.complaints = append(b.complaints, got.Params.Entry.Text)
		case got.ID == b.last && got.Error != nil:
			t.Fatalf("%s: %s", method, got.Error.Message)
		case got.ID == b.last:
			if into != nil {
				if err := json.Unmarshal(got.Result, into); err != nil {
					t.Fatal(err)
				}
			}
			return
		}
	}
}
