package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/tools/lab/affinity"
)

// machine says where, when and what was measured.
func (c *runCommand) machine() string {
	version, _ := exec.Command(c.Weft, "version").Output() //nolint:noctx // it prints a line; "" where it cannot
	cpus, _ := affinity.Own()
	return fmt.Sprintf("%s, %d processors (%s), Linux %s, %s, ONNX Runtime %s, %s.", time.Now().UTC().Format("2006-01-02"),
		len(cpus), processor(), kernel(), runtime.Version(), ortlib.Version, strings.TrimSpace(string(version)))
}

// processor is the name of the machine's processor.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo") // "" where there is none
	_, rest, _ := strings.Cut(string(text), "model name")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.Trim(line, "\t :")
}

func kernel() string {
	text, _ := os.ReadFile("/proc/sys/kernel/osrelease") // "" where there is none
	return strings.TrimSpace(string(text))
}
