package harness

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/tools/lab/affinity"
)

// Machine says where, when and with which program something was measured.
func Machine(weft string) string {
	version, _ := exec.Command(weft, "version").Output() //nolint:noctx // it prints a line; "" where it cannot
	cpus, _ := affinity.Own()
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease") // "" where there is none
	processor := ""
	if fs, err := procfs.NewDefaultFS(); err == nil {
		if all, err := fs.CPUInfo(); err == nil && len(all) > 0 {
			processor = all[0].ModelName
		}
	}
	return fmt.Sprintf("%s, %d processors (%s), Linux %s, %s, ONNX Runtime %s, %s.", time.Now().UTC().Format("2006-01-02"),
		len(cpus), processor, strings.TrimSpace(string(kernel)), runtime.Version(), ortlib.Version,
		strings.TrimSpace(string(version)))
}
