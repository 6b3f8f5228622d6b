package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// RemovePostgres deletes a server's directory with its data, also where the data lies elsewhere, after stopping a
// server that an earlier run left. ErrInUse if a live process holds it. It is no error if there is none.
func RemovePostgres(ctx context.Context, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("remove postgres: %w", err)
	}
	if resolved, unresolved := filepath.EvalSymlinks(dir); unresolved == nil {
		dir = resolved
	}
	homes := append([]string{dir}, standIns(dir)...)
	held, err := acquireLock(cluster{dir: dir}.lock())
	switch {
	case err == nil:
		defer held.release()
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("remove postgres: %w", err)
	}
	for _, home := range homes {
		if err := removeHome(ctx, dir, home); err != nil {
			return fmt.Errorf("remove postgres: %w", err)
		}
	}
	return nil
}

// removeHome leaves alone what is not ours: the place of a stand-in may be taken by somebody else.
func removeHome(ctx context.Context, dir, home string) error {
	info, err := os.Lstat(home)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if home != dir && !ours(info) {
		return nil
	}
	c := cluster{dir: dir, home: home, account: serverAccount()}
	c.sweep(ctx)
	if err := endServers(ctx, c.data(), staleSteps()); err != nil {
		return err
	}
	return os.RemoveAll(home)
}
