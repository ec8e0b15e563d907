//go:build unix && !linux

package pgserver

import "syscall"

// childAttr puts the child into a process group of its own, out of reach of the terminal's
// Ctrl-C. Only the watchdog ends it when we die: these kernels have no signal for that.
func childAttr(cred *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: cred, Setpgid: true}
}
