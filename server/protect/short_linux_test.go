package protect

import (
	"context"
	"log/slog"
	"os/exec"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/weftserve/weft/internal/owntime"
)

// TestResetsWhileAWorkerIsStopped: calls that run out of time because a process of the server has none do not end their
// connection. A flood of them does.
func TestResetsWhileAWorkerIsStopped(t *testing.T) {
	worker := exec.Command("sleep", "1000")
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = worker.Wait() }()
	defer func() { _ = worker.Process.Kill() }()
	if err := worker.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := syscall.Wait4(worker.Process.Pid, nil, syscall.WUNTRACED, nil); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		clock := owntime.New()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go clock.Run(ctx)
		defer clock.Follow(worker.Process.Pid).AfterFunc(time.Hour, func() {}).Stop() // a run goes on there
		g := New(Config{Logger: slog.New(slog.DiscardHandler), Clock: clock})
		p := connect(t, g)
		time.Sleep(time.Second)
		p.must(writePreface(p))
		for id := uint32(1); ; id += 2 {
			p.must(p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte{0x82}, EndHeaders: true}))
			p.must(p.WriteRSTStream(id, http2.ErrCodeCancel))
			ended, calls := g.Stats().Ended[Resets] > 0, id/2+1
			if few := calls < 0.9*resetBurst/shortReset; ended && few || !ended && calls > 2*resetBurst/shortReset {
				t.Fatalf("after %d calls that were reset: ended %v", calls, ended)
			}
			if ended {
				break
			}
		}
		p.Conn.Close()
		p.conn.Close()
		time.Sleep(2 * linger)
	})
}
