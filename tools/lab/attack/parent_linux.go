package main

import (
	"os/exec"
	"syscall"
)

// endWithParent has the system end a child when this program is killed.
func endWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
