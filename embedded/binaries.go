package embedded

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// binaries is one Postgres installation.
type binaries struct {
	dir   string
	major int
}

func (b binaries) initdb() string   { return filepath.Join(b.dir, initProgram) }
func (b binaries) postgres() string { return filepath.Join(b.dir, serverProgram) }

// finder looks for an installation that works for an account and, when major is set, for existing data.
type finder struct {
	account  account
	major    int                                       // of existing data, 0 = any
	explicit string                                    // tried first, may be empty
	system   string                                    // glob of the distribution's directories
	lookup   func(name string) (string, error)         // PATH
	fetch    func(ctx context.Context) (string, error) // last resort, may be nil
	report   func(msg string, args ...any)             // told about candidates that don't work
}

const systemBinaries = "/usr/lib/postgresql/*/bin"

// find returns the first installation that works, or ErrNoBinaries with everything that was tried.
func (f finder) find(ctx context.Context) (binaries, error) {
	var tried []string
	for _, dir := range f.candidates() {
		b, err := f.probe(ctx, dir)
		if err == nil {
			return b, nil
		}
		tried = append(tried, fmt.Sprintf("%s (%v)", dir, err))
		f.report("postgres binaries skipped", "dir", dir, "reason", err.Error())
	}
	if f.fetch != nil {
		b, err := f.download(ctx)
		if err == nil {
			return b, nil
		}
		tried = append(tried, fmt.Sprintf("download (%v)", err))
	}
	if len(tried) == 0 {
		return binaries{}, fmt.Errorf("%w: none on PATH or in %s", ErrNoBinaries, systemBinaries)
	}
	return binaries{}, fmt.Errorf("%w: tried %s", ErrNoBinaries, strings.Join(tried, ", "))
}

func (f finder) download(ctx context.Context) (binaries, error) {
	f.report("no Postgres on this machine, downloading one")
	dir, err := f.fetch(ctx)
	if err != nil {
		return binaries{}, err
	}
	return f.probe(ctx, dir)
}

// candidates lists directories in the order of preference, each once.
func (f finder) candidates() []string {
	var dirs []string
	add := func(dir string) {
		if dir != "" && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	add(f.explicit)
	for _, name := range []string{initProgram, serverProgram} {
		path, err := f.lookup(name)
		if err != nil {
			continue
		}
		if resolved, err := filepath.EvalSymlinks(path); err == nil {
			path = resolved
		}
		add(filepath.Dir(path))
	}
	found, err := filepath.Glob(f.system)
	if err != nil {
		return dirs
	}
	slices.SortFunc(found, func(a, b string) int { return majorOf(b) - majorOf(a) })
	for _, dir := range found {
		add(dir)
	}
	return dirs
}

// majorOf reads the version from a path such as /usr/lib/postgresql/15/bin; 0 if there is none.
func majorOf(dir string) int {
	major, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
	if err != nil {
		return 0
	}
	return major
}

var versionLine = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// probe runs both programs as the account that will have to run them.
func (f finder) probe(ctx context.Context, dir string) (binaries, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	b := binaries{dir: dir}
	for _, program := range []string{b.initdb(), b.postgres()} {
		out, err := f.account.command(ctx, "/", program, "--version").Output()
		if err != nil {
			return b, fmt.Errorf("%s --version: %w", filepath.Base(program), err)
		}
		m := versionLine.FindSubmatch(out)
		if m == nil {
			return b, fmt.Errorf("%s --version: no version in its answer", filepath.Base(program))
		}
		major, err := strconv.Atoi(string(m[1]))
		if err != nil {
			return b, fmt.Errorf("%s --version: %w", filepath.Base(program), err)
		}
		if b.major != 0 && b.major != major {
			return b, errors.New("initdb and postgres are of different versions")
		}
		b.major = major
	}
	if f.major != 0 && b.major != f.major {
		return b, fmt.Errorf("version %d, existing data is of version %d", b.major, f.major)
	}
	return b, nil
}

func (o PostgresOptions) finder(a account, major int) finder {
	f := finder{
		account:  a,
		major:    major,
		explicit: o.BinDir,
		system:   systemBinaries,
		lookup:   exec.LookPath,
		report:   o.Logger.Warn,
	}
	if !o.NoDownload {
		f.fetch = downloader{cache: o.CacheDir, url: o.DownloadURL, account: a}.fetch
	}
	return f
}
