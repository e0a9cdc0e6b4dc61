//go:build !linux

package harness

import (
	"os/exec"
	"syscall"
)

// EndWithParent does nothing: where there is no /proc, nothing is measured.
func EndWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{} }
