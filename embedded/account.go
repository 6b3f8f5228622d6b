package embedded

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// account is the operating system user that server processes run as. Postgres refuses to run as root.
type account struct {
	uid, gid int
	dropped  bool // differs from the user of this process
}

// serverUser is what distributions call the user that runs Postgres.
const serverUser = "postgres"

// serverAccount returns this process's own user, or for root an unprivileged one.
func serverAccount() account {
	if os.Geteuid() != 0 {
		return account{uid: os.Geteuid(), gid: os.Getegid()}
	}
	for _, name := range []string{serverUser, "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.Atoi(u.Uid)
		gid, gidErr := strconv.Atoi(u.Gid)
		if uidErr == nil && gidErr == nil && uid > 0 {
			return account{uid: uid, gid: gid, dropped: true}
		}
	}
	const overflow = 65534 // what the kernel itself calls nobody
	return account{uid: overflow, gid: overflow, dropped: true}
}

// command prepares a process of the account in a group of its own, so that a Ctrl-C at the terminal reaches us
// first. dir must be readable for the account. PG* variables are kept out: they would redirect the server.
func (a account) command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...) // #nosec G204 -- programs that the developer names or installed
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"),
		"LD_LIBRARY_PATH=" + os.Getenv("LD_LIBRARY_PATH"),
		"LC_ALL=C",
		"TZ=UTC",
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if a.dropped {
		// #nosec G115 -- ids are never negative
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return cmd
}

// canReach tells whether the account may enter dir. The kernel is asked, by a process of the account, because
// mode bits alone don't tell the truth under ACLs and security modules.
func (a account) canReach(ctx context.Context, dir string) bool {
	if !a.dropped {
		return true
	}
	return a.command(ctx, "/", "/bin/sh", "-c", `cd -- "$1"`, "sh", dir).Run() == nil
}

// own gives path to the account.
func (a account) own(path string) error {
	if !a.dropped {
		return nil
	}
	if err := os.Chown(path, a.uid, a.gid); err != nil {
		return fmt.Errorf("hand over to the server's user: %w", err)
	}
	return nil
}
