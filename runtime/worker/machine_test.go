package worker

import (
	"os"
	"path/filepath"
	"testing"
)

// TestAvailable: the memory that there is, is the machine's or the least bound of a control group, or of one above it.
func TestAvailable(t *testing.T) {
	const machine, group = "MemTotal:       24576 kB\nMemFree:            1 kB\n", "sys/fs/cgroup/"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"nothing is known": {},
		"a machine":        {map[string]string{"proc/meminfo": machine}, 24 << 20},
		"a group without a bound": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/a/b\n", group + "a/b/memory.max": "max\n",
		}, 24 << 20},
		"a group above": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/a/b\n", group + "a/b/memory.max": "4096000\n",
			group + "a/memory.max": "4096\n",
		}, 4096},
		"a container's root": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/\n", group + "memory.max": "8192\n",
		}, 8192},
		"version 1, seen from outside": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "9:name=systemd:/\n4:memory:/docker/a\n",
			group + "memory/memory.limit_in_bytes": "8192\n",
		}, 8192},
		"version 1 without a bound": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "4:memory:/a\n",
			group + "memory/a/memory.limit_in_bytes": "9223372036854771712\n",
		}, 24 << 20},
	} {
		root := t.TempDir()
		for path, text := range c.files {
			path = filepath.Join(root, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := available(root); got != c.want {
			t.Errorf("%s: %d bytes, want %d", name, got, c.want)
		}
	}
}
