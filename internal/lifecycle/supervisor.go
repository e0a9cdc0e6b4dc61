package lifecycle

import (
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Supervisor is the service manager that started this process. It is told the state of the process in systemd's
// protocol (sd_notify). If NOTIFY_SOCKET is not set, nothing is told. It is safe for concurrent use.
type Supervisor struct {
	log  *slog.Logger
	tell func(state string) error // of tests; nil: send

	mu  sync.Mutex // held while something is told, so that the manager hears things in the order in which they are
	now phase
}

// phase is the state that the manager was told last. It only goes forward.
type phase int

const (
	starting phase = iota
	ready
	stopping
)

// NewSupervisor returns the supervisor that the environment names.
func NewSupervisor(log *slog.Logger) *Supervisor { return &Supervisor{log: log} }

// Ready says that the start is complete. It has no effect on a process that stops.
func (s *Supervisor) Ready() { s.enter(ready, daemon.SdNotifyReady) }

// Stopping says that the process has begun to stop. Nothing but beats is told after it.
func (s *Supervisor) Stopping() { s.enter(stopping, daemon.SdNotifyStopping) }

// enter tells a state once, and never after a later one.
func (s *Supervisor) enter(next phase, state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now < next {
		s.now = next
		s.notify(state)
	}
}

// During runs reload, and says when it begins and ends. A process that is not ready yet says nothing: the manager would
// take the end of the reload for that of the start.
func (s *Supervisor) During(reload func()) {
	s.whileReady(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
	reload()
	s.whileReady(daemon.SdNotifyReady)
}

// whileReady tells a state to the manager of a process that is ready.
func (s *Supervisor) whileReady(state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == ready {
		s.notify(state)
	}
}

// notify tells a state. The process goes on if the manager cannot be reached, which then acts by its own rules.
func (s *Supervisor) notify(state string) {
	tell := s.tell
	if tell == nil {
		tell = send
	}
	if err := tell(state); err != nil {
		s.log.Warn("service manager not told", "event", "supervisor_not_told", "state", state, "cause", err)
	}
}

// sendTime bounds the wait for a manager whose socket is full.
const sendTime = time.Second

// send is daemon.SdNotify with a bound on its time: a manager that does not read must not keep the process from
// stopping.
func send(state string) error {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(sendTime)); err != nil {
		return err
	}
	_, err = conn.Write([]byte(state))
	return err
}
