package protect_test

import (
	"net"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/server/protect"
)

// TestTurns: on one processor, who works on large messages lets those go on whom the network has brought something.
func TestTurns(t *testing.T) {
	t.Cleanup(protect.Processors(1))
	processors := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(processors)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	var came atomic.Int64
	go func() {
		for b := make([]byte, 1); ; came.Add(1) {
			if _, err := near.Read(b); err != nil {
				return
			}
		}
	}()
	var turn protect.Turn
	turn.Begin()
	defer turn.End()
	turn.Step(1 << 20) // it waits for the first
	late := 0
	for i := range int64(100) {
		if _, err := far.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		turn.Step(1 << 20)
		turn.Step(1 << 20)
		if came.Load() < i { // the last may have been read and not counted yet
			late++
			weftest.Until(t, "all bytes have come", func() bool { return came.Load() > i })
		}
	}
	if late > 10 { // the system may have others before the thread that reads
		t.Errorf("%d of 100 bytes had not come when others had had the processor twice", late)
	}
}
