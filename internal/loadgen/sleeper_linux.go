package loadgen

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// kernelSleeper waits for a timer of the kernel (timerfd), as the runtime's poller waits for a socket. It is some 50 us
// late, where the runtime's own timers are up to a millisecond late. A goroutine that waits for it keeps no thread.
type kernelSleeper struct {
	fd    int
	timer *os.File
}

// newSleeper returns the most exact sleeper that there is here.
func newSleeper() sleeper {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return timerSleeper{} // later, and as right: the lag is measured
	}
	return &kernelSleeper{fd, os.NewFile(uintptr(fd), "timerfd")}
}

// until implements sleeper. If the timer fails it waits by the runtime's, and the lag shows that.
func (k *kernelSleeper) until(ctx context.Context, moment time.Time) bool {
	left := time.Until(moment)
	if left <= 0 || ctx.Err() != nil {
		return ctx.Err() == nil
	}
	// A read deadline in the past ends the read below. It stays: the sleeper is not used after ctx has ended.
	stop := context.AfterFunc(ctx, func() { _ = k.timer.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	once := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(left))}
	if err := unix.TimerfdSettime(k.fd, 0, &once, nil); err != nil {
		return timerSleeper{}.until(ctx, moment)
	}
	// The read returns once the timer fires. How often it fired is of no interest.
	var expirations [8]byte
	if _, err := k.timer.Read(expirations[:]); err != nil {
		return timerSleeper{}.until(ctx, moment)
	}
	return ctx.Err() == nil
}

func (k *kernelSleeper) close() { _ = k.timer.Close() }
