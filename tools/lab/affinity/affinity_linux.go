package affinity

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Own returns the numbers of the processors that this program may use. The error says that the system does not tell.
func Own() ([]int, error) {
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

// Start calls start, whose child processes will run on those processors only, and with that niceness if this program
// may give it: a process inherits both from the thread that starts it. The error is that of start, or says that the
// processors cannot be had.
func Start(cpus []int, niceness int, start func() error) error {
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
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, niceness) // it may be forbidden
	err = start()
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 20-usual) // the system call gives 20 less the niceness
	if restored := unix.SchedSetaffinity(0, &before); err == nil {
		err = restored
	}
	return err
}
