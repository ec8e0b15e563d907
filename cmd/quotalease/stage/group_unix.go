//go:build unix

package stage

import "syscall"

// ownGroup keeps a terminal's signals from reaching a child before its parent.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
