package loadgen

import (
	"os"
	"os/exec"
	"testing"

	"github.com/weftserve/weft/internal/weftest"
)

// TestProcessorTime has a child work, and its child: their time counts while they run and once they have ended.
func TestProcessorTime(t *testing.T) {
	reading := func() used {
		u, err := usedBy(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	before := reading()
	child := exec.Command("sh", "-c", "(while :; do :; done) & child=$!; read line; kill $child; wait $child")
	end, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	weftest.Until(t, "the child's child works", func() bool {
		return reading().children.user >= before.children.user+5*tick
	})
	running := reading()
	end.Close()
	_ = child.Wait() // its status is of the killed child
	if after := reading(); after.children.user < running.children.user {
		t.Errorf("children that ended are forgotten: %v, %v while they ran", after.children, running.children)
	}
	weftest.Until(t, "this process works", func() bool { return reading().process != before.process })
}
