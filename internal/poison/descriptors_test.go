//go:build linux

package poison

import (
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/internal/weftest"
)

// TestNoDescriptors: callers that hold all descriptors do not keep the next process from taking the place of one that
// died, and no request is said to be at fault.
func TestNoDescriptors(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a server")
	}
	together(t)
	few := innocents[:2]
	const limit = 256
	s := serveWith(t, []string{"sh", "-c", fmt.Sprintf("ulimit -n %d && exec \"$@\"", limit), "sh"}, addInnocents(t, few))
	l := &load{t: t, server: s, heard: make(chan struct{})}
	rng := rand.New(rand.NewPCG(1, 2))
	if err := l.ask(t.Context(), &few[0], rng); err != nil { // which connects
		t.Fatal(err)
	}
	var held []*grpc.ClientConn
	defer func() {
		for _, c := range held {
			c.Close()
		}
	}()
	files := func() int {
		all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.command.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	for range limit {
		c, err := weftest.Dial(s.grpc)
		if err != nil {
			t.Fatal(err)
		}
		c.Connect()
		held = append(held, c)
	}
	before := 0
	weftest.Until(t, "no descriptor", func() bool {
		defer func() { before = files() }()
		return files() >= limit/2 && files() == before
	})
	t.Logf("%d descriptors of %d", files(), limit)
	for range weftest.Times(2, 20) {
		killed := s.workers()
		for _, pid := range killed {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		answered, refused := 0, map[string]int{}
		for began := time.Now(); answered < 20; {
			err := l.ask(t.Context(), &few[rng.IntN(2)], rng)
			if err == nil {
				answered++
				continue
			}
			refused[err.Error()]++
			if status.Code(err) != codes.Unavailable || time.Since(began) > weftest.Patience {
				t.Fatalf("after %v: %v", time.Since(began), err)
			}
		}
		t.Logf("%d descriptors; %v", files(), refused)
	}
}
