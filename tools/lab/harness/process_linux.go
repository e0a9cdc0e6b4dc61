package harness

import (
	"os/exec"
	"syscall"
)

// EndWithParent has the system end a process when this program is killed.
func EndWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
