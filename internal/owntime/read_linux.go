package owntime

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// usedBy returns the processor time that a process has used, or 0 if it has ended. The clock's number is made as the C
// library's clock_getcpuclockid makes it.
func usedBy(pid int) time.Duration {
	const scheduled = 2 // the clock of all its threads, to the nanosecond
	var ts unix.Timespec
	if unix.ClockGettime(int32(^pid<<3|scheduled), &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// folder returns where the system tells of a process.
func folder(pid int) string { return "/proc/" + strconv.Itoa(pid) + "/" }

// isStopped reports whether a process is, by a signal or a debugger.
func isStopped(folder string) bool { return strings.ContainsRune("Tt", stateIn(folder)) }

// isRunnable reports whether a thread has a processor or waits for one.
func isRunnable(folder string) bool { return stateIn(folder) == 'R' }

// read returns what a file of /proc says, or nothing. It is a few system calls, where os.ReadFile has the file watched
// for events, too.
func read(path string) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	text := make([]byte, 512) // enough for what is looked for
	n, _ := unix.Read(fd, text)
	return text[:max(n, 0)]
}

// stateIn returns the state of a process or thread, or 0 if it has ended. A name may have parentheses, so that the last
// one counts.
func stateIn(folder string) rune {
	text := read(folder + "stat") // number (name) state ...
	if at := bytes.LastIndexByte(text, ')') + 2; at < len(text) {
		return rune(text[at])
	}
	return 0
}

// threadsOf returns the threads of a process by their numbers. The ones that end meanwhile are left out.
func threadsOf(pid int) map[string]thread {
	dir := folder(pid) + "task/"
	names, _ := os.ReadDir(dir) // the ones that could be read
	threads := make(map[string]thread, len(names))
	for _, name := range names {
		text := read(dir + name.Name() + "/schedstat") // used, waited, how often it began
		if fields := bytes.Fields(text); len(fields) > 1 {
			threads[name.Name()] = thread{used: time.Duration(number(fields[0])), waited: time.Duration(number(fields[1]))}
		}
	}
	return threads
}

// number reads a whole number.
func number(text []byte) int64 {
	n, _ := strconv.ParseInt(string(text), 10, 64) // the kernel writes numbers
	return n
}

// machine is what is known of all processes together at the latest look. The lock of looks guards it.
type machine struct {
	waited  int64   // how long some process waited for a processor, in microseconds since the machine's start
	pressed bool    // some did for a part of the time, since the latest look; true, if that is unknown
	stolen  float64 // the part of processor time that others had, lately

	// State of the readings of /proc/stat. There is one for every so many looks.
	looks       int
	used, taken float64 // processor time that was used, and that others had, in ticks since the machine's start
}

// little is the part of a time in which processes may wait for a processor without a closer look at each thread.
const little = 0.05

// steals is how many looks there are for each read of /proc/stat, which takes long on machines with many processors.
const steals = 10

// look reads whether any process waited for a processor, and now and then how much processor time other machines took.
// Pressure is unknown where the kernel does not measure it; each thread is then looked at.
func (m *machine) look(took time.Duration) {
	m.pressed = true
	if text := read("/proc/pressure/cpu"); len(text) > 0 { // some avg10=0.00 avg60=0.00 avg300=0.00 total=0
		_, total, _ := bytes.Cut(text, []byte("total="))
		line, _, _ := bytes.Cut(total, []byte("\n"))
		before := m.waited
		m.waited = number(line)
		m.pressed = float64(m.waited-before) > little*float64(took.Microseconds())
	}
	if m.looks++; m.looks%steals != 1 {
		return
	}
	text := read("/proc/stat")
	line, _, _ := bytes.Cut(text, []byte("\n"))
	all := bytes.Fields(line) // cpu, user, nice, system, idle, iowait, irq, softirq, steal, ...
	if len(all) < 9 {
		return
	}
	before := *m
	m.used, m.taken = 0, float64(number(all[8]))
	for _, at := range []int{1, 2, 3, 6, 7} {
		m.used += float64(number(all[at]))
	}
	if used, taken := m.used-before.used, m.taken-before.taken; before.used > 0 && used > 0 && taken >= 0 {
		m.stolen = taken / (used + taken)
	}
}
