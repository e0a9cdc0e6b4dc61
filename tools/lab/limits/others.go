package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// usage is processor time, in ticks, since the machine or the process started.
type usage struct {
	all  float64 // that there was
	busy float64 // that anybody used, but for interrupts: those of the network are the servers' own
	ours float64 // that this program and its children used
}

// usageNow reads /proc.
func usageNow() (u usage) {
	machine, _ := os.ReadFile("/proc/stat") // without it all is 0
	line, _, _ := strings.Cut(string(machine), "\n")
	for i, field := range strings.Fields(strings.TrimPrefix(line, "cpu")) {
		ticks, _ := strconv.ParseFloat(field, 64)
		if i < guestField { // those of guests are in the others
			u.all += ticks
		}
		if i <= systemField || i == stealField {
			u.busy += ticks
		}
	}
	for _, pid := range family(os.Getpid()) {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // it may have ended
		_, rest, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(rest); len(fields) > lastTime {
			for _, field := range fields[firstTime : lastTime+1] {
				ticks, _ := strconv.ParseFloat(field, 64)
				u.ours += ticks
			}
		}
	}
	return u
}

// Fields of /proc/stat, and of /proc/PID/stat behind the name: its own time, and that of children that have ended.
const (
	systemField, stealField, guestField = 2, 7, 8
	firstTime, lastTime                 = 11, 14
)

// others is the part of the machine's processor time that other programs used between two readings.
func others(before, after usage) float64 {
	if after.all <= before.all {
		return 0
	}
	return max(0, ((after.busy-before.busy)-(after.ours-before.ours))/(after.all-before.all))
}
