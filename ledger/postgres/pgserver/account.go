//go:build unix

package pgserver

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is whom the server runs as when we are root, which PostgreSQL refuses to be. Nil
// means ourselves.
type account struct {
	name     string
	uid, gid uint32
}

func serverAccount() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(found.Uid, 10, 32)
		if err != nil {
			continue
		}
		gid, err := strconv.ParseUint(found.Gid, 10, 32)
		if err != nil {
			continue
		}
		return &account{name: name, uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return nil, fmt.Errorf("run PostgreSQL as root: it must run as another user, and neither postgres nor nobody exists here")
}

func (a *account) credential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &syscall.Credential{Uid: a.uid, Gid: a.gid}
}

// mkdir makes a folder that only the server's account can enter (and root, who can anyway).
func (a *account) mkdir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if a == nil {
		return nil
	}
	return os.Chown(dir, int(a.uid), int(a.gid))
}

// open lets the account pass through a folder that stays ours, without listing it.
func (a *account) open(dir string) error {
	if a == nil {
		return nil
	}
	return os.Chmod(dir, 0o711)
}

// blocked returns the first folder on the way to dir that the account cannot pass, or "".
func (a *account) blocked(dir string) (string, error) {
	if a == nil {
		return "", nil
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	for {
		info, err := os.Stat(real)
		if err != nil {
			return "", err
		}
		if !a.mayEnter(info) {
			return real, nil
		}
		parent := filepath.Dir(real)
		if parent == real {
			return "", nil
		}
		real = parent
	}
}

func (a *account) mayEnter(info os.FileInfo) bool {
	mode := info.Mode().Perm()
	owner := info.Sys().(*syscall.Stat_t)
	switch {
	case owner.Uid == a.uid:
		return mode&0o100 != 0
	case owner.Gid == a.gid:
		return mode&0o010 != 0
	}
	return mode&0o001 != 0
}
