package deploy

import (
	"debug/elf"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v4"
)

// TestImage builds the image's binary with the script that the Dockerfile runs, and starts it as the image would: alone
// in its root, as user 65532.
func TestImage(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, dir := range []string{filepath.Dir(root), root} { // the unprivileged user must get there
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.CommandContext(t.Context(), "../dist.sh", root)
	build.Env = append(os.Environ(), "VERSION=v1.2.3", "COMMIT=abc")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	path := filepath.Join(root, "fetcher")
	if runtime.GOOS != "linux" {
		t.Skip("an image is for Linux; only the build was tried")
	}
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if libraries, err := file.ImportedLibraries(); err != nil || len(libraries) > 0 || file.Section(".interp") != nil {
		t.Errorf("the binary is not static: %v, %v", libraries, err)
	}
	if os.Getuid() != 0 {
		t.Skip("changing the root takes a superuser; only the binary was looked at")
	}
	run := func(env []string, args ...string) (string, int) {
		cmd := exec.CommandContext(t.Context(), "/fetcher", args...)
		cmd.Dir, cmd.Env = "/", env
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	for _, c := range []struct {
		args []string
		env  []string
		code int
		says string
	}{
		{[]string{"version"}, nil, 0, "v1.2.3"},
		{[]string{"healthcheck"}, []string{"SERVER_ADDRESS=127.0.0.1:1"}, 1, "does not answer"},
		{[]string{"serve"}, nil, 2, "DATABASE_URL: is required"},
		{[]string{"config", "check"}, environment(composed(t)), 0, "DATABASE_URL"},
	} {
		if out, code := run(c.env, c.args...); code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("fetcher %v: %d, %s", c.args, code, out)
		}
	}
}

// composed is the environment of compose.yaml's service, secrets in place of their files, as the script makes them.
func composed(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "../compose-secrets.sh", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var file struct {
		Services map[string]struct {
			Environment map[string]string `yaml:"environment"`
			Secrets     []string          `yaml:"secrets"`
			EnvFile     []string          `yaml:"env_file"`
		} `yaml:"services"`
		Secrets map[string]struct {
			File string `yaml:"file"`
		} `yaml:"secrets"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "../../compose.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for name, value := range file.Services["fetcher"].Environment {
		secret, ok := strings.CutPrefix(value, "/run/secrets/")
		if !ok {
			out[name] = value
			continue
		}
		if !slices.Contains(file.Services["fetcher"].Secrets, secret) {
			t.Errorf("compose.yaml: %s names the secret %s, which the service does not have", name, secret)
		}
		out[strings.TrimSuffix(name, "_FILE")] = read(t, filepath.Join(dir, file.Secrets[secret].File))
	}
	for _, path := range file.Services["fetcher"].EnvFile {
		if !strings.Contains(read(t, filepath.Join(dir, path)), "AWS_SECRET_ACCESS_KEY=") {
			t.Errorf("compose.yaml: %s has no credentials", path)
		}
	}
	if len(out) < 5 {
		t.Fatalf("compose.yaml gives %v", slices.Sorted(maps.Keys(out)))
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

func environment(vars map[string]string) []string {
	var out []string
	for name, value := range vars {
		out = append(out, name+"="+value)
	}
	return out
}
