package pgserver

import "syscall"

// childAttr puts the child into a process group of its own, out of reach of the terminal's
// Ctrl-C, and has the kernel ask it to shut down when we die.
func childAttr(cred *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: cred, Setpgid: true, Pdeathsig: syscall.SIGINT}
}
