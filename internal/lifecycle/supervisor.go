package lifecycle

import (
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Supervisor is the service manager that started this process, which is told how the process is in systemd's protocol
// (sd_notify). Where none asks, by NOTIFY_SOCKET, nothing is told. Its methods may be called at once.
type Supervisor struct {
	log  *slog.Logger
	tell func(state string) error // of tests; nil: send

	mu  sync.Mutex // held while something is told, so that the manager hears things in the order in which they are
	now phase
}

// phase is what the manager knows. They follow each other.
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

func (s *Supervisor) whileReady(state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == ready {
		s.notify(state)
	}
}

// notify tells a state. A manager that cannot be reached takes its measures; the process goes on.
func (s *Supervisor) notify(state string) {
	tell := s.tell
	if tell == nil {
		tell = send
	}
	if err := tell(state); err != nil {
		s.log.Warn("service manager not told", "event", "supervisor_not_told", "state", state, "cause", err)
	}
}

// sendTime is how long the manager may take to make room for what it is told.
const sendTime = time.Second

// send is daemon.SdNotify with an end: one that does not read must not keep the process from stopping.
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
