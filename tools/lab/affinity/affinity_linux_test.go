package affinity

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// TestStart: a child runs on the processor that it was given, this program on all as before.
func TestStart(t *testing.T) {
	before, err := Own()
	if err != nil {
		t.Fatal(err)
	}
	last := before[len(before)-1]
	var text []byte
	err = Start([]int{last}, Usual, func() (err error) {
		text, err = exec.CommandContext(t.Context(), "grep", "Cpus_allowed_list", "/proc/self/status").Output()
		return err
	})
	if want := fmt.Sprintf("\t%d\n", last); err != nil || !strings.HasSuffix(string(text), want) {
		t.Errorf("the child says %q, want ...%q: %v", text, want, err)
	}
	if after, err := Own(); err != nil || fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("this program may use processors %v, before %v: %v", after, before, err)
	}
}
