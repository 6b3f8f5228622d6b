package charts

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fetcherhq/fetcher/testkit"
	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

// pod is what a pod of the rendered chart runs: the arguments, the environment, and the files of its Secrets.
type pod struct {
	args []string
	env  map[string]string
	port string
}

// podOf reads it from the objects as the kubelet would. Files of Secrets are written below dir.
func podOf(t *testing.T, objects map[string]object, id, dir string) pod {
	t.Helper()
	spec := objects[id].at("spec", "template", "spec")
	container := spec.list("containers")[0]
	p := pod{env: map[string]string{}}
	for _, arg := range container["args"].([]any) {
		p.args = append(p.args, arg.(string))
	}
	for _, from := range container.list("envFrom") {
		for name, value := range objects["ConfigMap/"+from.at("configMapRef").text("name")].at("data") {
			p.env[name] = value.(string)
		}
		for name, value := range objects["Secret/"+from.at("secretRef").text("name")].at("stringData") {
			p.env[name] = value.(string)
		}
	}
	volumes := map[string]object{}
	for _, v := range spec.list("volumes") {
		volumes[v.text("name")] = v
	}
	mounts := map[string]string{}
	for _, m := range container.list("volumeMounts") {
		secret := volumes[m.text("name")].at("secret")
		target := filepath.Join(dir, m.text("mountPath"))
		for _, item := range secret.list("items") {
			content := objects["Secret/"+secret.text("secretName")].at("stringData").text(item.text("key"))
			writeFile(t, filepath.Join(target, item.text("path")), content)
		}
		mounts[m.text("mountPath")] = target
	}
	for _, v := range container.list("env") {
		value := v.text("value")
		for path, target := range mounts {
			if rest, ok := strings.CutPrefix(value, path+"/"); ok {
				value = filepath.Join(target, rest)
				break // the folder for tests may itself be below /tmp, which is a mount, too
			}
		}
		p.env[v.text("name")] = value
	}
	if ports := container.list("ports"); len(ports) > 0 {
		p.port = fmt.Sprint(ports[0]["containerPort"])
	}
	return p
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (p pod) environ() []string {
	var out []string
	for name, value := range p.env {
		out = append(out, name+"="+value)
	}
	return out
}

// TestStart: what the chart renders starts the real program. The migration's pod migrates, manager and worker become
// ready on what it left, with secrets in the environment and with secrets in files.
func TestStart(t *testing.T) {
	t.Parallel()
	h := newHelm(t)
	binary, err := blackbox.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, extra := range map[string][]string{
		"environment": nil,
		"files":       {"--set", "secretFiles={DATABASE_URL,APP_ENC_KEY,RESULTS_URL}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			database := testkit.Postgres(t).NewDatabase(t)
			values := filepath.Join(dir, "values.yaml")
			writeFile(t, values, fmt.Sprintf("secrets:\n  DATABASE_URL: %q\n  APP_ENC_KEY: %q\n  RESULTS_URL: %q\n", database,
				base64.StdEncoding.EncodeToString(make([]byte, 32)), "file://"+filepath.Join(dir, "results")))
			// AUTO_MIGRATE is off so that only the migration's pod can have migrated.
			args := append([]string{"--values", values, "--set", "config.DEPLOYMENT_MODE=local", "--set", "config.AUTO_MIGRATE=false"}, extra...)
			objects := documents(t, h.render(t, args...))

			if migrated(t, database) {
				t.Fatal("the database is migrated beforehand")
			}
			migrate := podOf(t, objects, "Job/gateway-fetcher-migrate", filepath.Join(dir, "migrate"))
			if out := binary.Command(t, migrate.environ(), migrate.args...); !strings.Contains(out, "control database: up to date") {
				t.Errorf("the migration says %s", out)
			}
			if !migrated(t, database) {
				t.Error("the migration did not migrate")
			}
			for role, address := range map[string]string{"manager": "SERVER_ADDRESS", "worker": "HEALTH_ADDRESS"} {
				p := podOf(t, objects, "Deployment/gateway-fetcher-"+role, filepath.Join(dir, role))
				if p.env[address] != ":"+p.port {
					t.Errorf("%s listens on %s, and its port is %s", role, p.env[address], p.port)
				}
				p.env[address] = freeAddress(t) // two tests can't have the port of the pods
				process, err := binary.Launch(p.environ(), p.args...)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := process.Stop(); err != nil {
						t.Errorf("%s: %v\n%s", role, err, process.Output)
					}
				})
				awaitReady(t, process, p.env[address])
			}
		})
	}
}

func migrated(t *testing.T, database string) bool {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	var there bool
	if err := conn.QueryRow(t.Context(), "SELECT to_regclass('tenants') IS NOT NULL").Scan(&there); err != nil {
		t.Fatal(err)
	}
	return there
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// awaitReady asks the probes of the chart until both answer 200.
func awaitReady(t *testing.T, process *blackbox.Process, address string) {
	t.Helper()
	var last string
	for deadline := time.Now().Add(blackbox.StartTimeout); time.Now().Before(deadline) && !process.Ended(); time.Sleep(50 * time.Millisecond) {
		ready := true
		for _, path := range []string{"/health", "/readyz"} {
			answer, err := http.Get("http://" + address + path)
			if err != nil {
				ready, last = false, err.Error()
				continue
			}
			answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				ready, last = false, path+" answers "+answer.Status
			}
		}
		if ready {
			return
		}
	}
	t.Fatalf("not ready: %s\n%s", last, process.Output)
}
