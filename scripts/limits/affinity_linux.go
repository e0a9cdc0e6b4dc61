package main

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// ownCPUs returns the processors that this program may use.
func ownCPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("the processors of this program: %w", err)
	}
	var cpus []int
	for cpu := range 8 * len(set) * 8 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// foremost is the niceness of what is measured, so that other work on the machine disturbs it less.
const foremost = -20

// onCPUs calls start, whose child processes will run on those processors only, and before other processes there if this
// program may have that: a process inherits both from the thread that starts it.
func onCPUs(cpus []int, start func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("run on processors %v: %w", cpus, err)
	}
	usual, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return err
	}
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, foremost) // it may be forbidden
	err = start()
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 20-usual) // the system call gives 20 less the niceness
	if restored := unix.SchedSetaffinity(0, &before); err == nil {
		err = restored
	}
	return err
}
