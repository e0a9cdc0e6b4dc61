//go:build linux

package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/internal/owntime"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/worker/sandbox"
)

// process is one life of a worker.
type process struct {
	conn     *conn
	command  *exec.Cmd
	started  time.Time
	clock    *owntime.Clock // by which what goes on there is judged
	output   *output
	confined *sandbox.Report // nil: it is not
	ended    chan struct{}   // closed with mu held once it is dead, after cause is set; then no lane is taken
	cause    *DeathError
	running  []string // the names of versions whose runs were under way when it died; set with cause
	usage    usage
	empty    int64        // memory that it took before a model was opened there
	bound    atomic.Int64 // on its memory in bytes; 0: none
	most     atomic.Int64 // memory that it was seen to take
	deaf     time.Duration
	closing  time.Duration
	openings openings

	mu      sync.Mutex
	killed  killing                  // guarded by mu, as is the rest; why this server ended it
	replies map[answer]chan *message // who waits for one
	givenUp map[uint32]chan struct{} // sessions whose opening was given up; closed once they are closed
	free    []*lane
	lanes   map[uint32]*lane
	made    uint32 // how many lanes were made

	stirred chan struct{} // capacity 1; see stir

	kept time.Time // guarded by the mutex of triedProcesses; since when it has waited there
}

// answer is a message for which somebody may wait: of some kind, about a session. The first message is about none.
type answer struct {
	kind kind
	id   uint32
}

// killing says why the server ended a process.
type killing struct {
	why      string // for people; "": it did not
	byRun    bool   // because of what a run did
	exceeded int64  // the bound on its memory that it exceeded; 0: none
}

// self is the kernel's name of this program's file, which may have been replaced since.
const self = "/proc/self/exe"

// helloPatience is how long a process may take from its start to its first word. It loads the engine's library in that
// time, from a disk that may be cold.
const helloPatience = 60 * time.Second

// startProcess starts a process and waits until it is there.
func startProcess(ctx context.Context, cfg Config) (*process, error) {
	library, err := cfg.Library()
	if err != nil {
		return nil, err
	}
	p := &process{
		output: newOutput(cfg.Log), ended: make(chan struct{}), replies: map[answer]chan *message{},
		givenUp: map[uint32]chan struct{}{}, lanes: map[uint32]*lane{}, openings: newOpenings(),
		stirred: make(chan struct{}, 1),
		deaf:    cmp.Or(cfg.deaf, deafPatience), closing: cmp.Or(cfg.closing, closePatience),
	}
	if err := p.launch(&cfg, library); err != nil {
		return nil, lacking(fmt.Errorf("cannot start a worker: %w", err))
	}
	p.bound.Store(cfg.Memory)
	if cfg.Memory > 0 && p.usage.statm != nil {
		go p.watch()
	}
	go p.await()
	first := answer{kind: helloMessage}
	hello := p.expect(first)
	defer p.forget(first)
	_ = p.conn.send(&message{Kind: beginMessage, Sandbox: cfg.policy(library)}) // the answer says more
	go p.listen()
	ctx, cancel := p.clock.WithTimeoutCause(ctx, helloPatience, context.DeadlineExceeded)
	defer cancel()
	m, err := p.reply(ctx, hello)
	if err == nil {
		err = m.Fault.err()
	}
	if err == nil && m.ID != protocol {
		err = fmt.Errorf("it speaks version %d of the protocol, expected %d", m.ID, protocol)
	}
	if err != nil {
		p.kill("it did not start")
		<-p.ended // Close of the pool leaves no process
		return nil, fmt.Errorf("cannot start a worker: %w", err)
	}
	p.confined, p.empty = m.Confined, p.usage.read()
	go p.watchPulse() //nolint:gosec // it lives as long as the process, not as its start
	return p, nil
}

// launch starts the process.
func (p *process) launch(cfg *Config, library string) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socketpair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "worker"), os.NewFile(uintptr(pair[1]), "server")
	defer theirs.Close()
	if p.conn, err = newConn(ours, maxAnswer, 0, maxRequest); err != nil {
		return err
	}
	p.command = &exec.Cmd{Path: self, Args: []string{os.Args[0], cfg.Command, library}}
	p.command.Env = environment(os.Environ())
	p.command.ExtraFiles = []*os.File{theirs}
	p.command.Stderr = p.output
	p.command.WaitDelay = time.Second
	// A group of its own: what a terminal sends to the server's is the server's to pass on.
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.command.Start(); err != nil {
		_ = p.conn.socket.Close()
		return err
	}
	if p.usage, err = newUsage(p.command.Process.Pid); err != nil { // nothing would bound its memory
		_ = p.conn.socket.Close()
		_ = p.command.Process.Kill()
		_ = p.command.Wait()
		return err
	}
	p.started, p.clock = time.Now(), cfg.Clock.Follow(p.command.Process.Pid)
	p.conn.clock, p.conn.patience = p.clock, p.deaf
	return nil
}

// await waits for the end of the process, and tells everybody who waits for it.
func (p *process) await() {
	err := p.command.Wait()
	p.clock.Forget()
	p.mu.Lock()
	p.cause = deathOf(p.command.ProcessState, err, p.killed, p.output.last())
	p.running = p.runningLocked()
	close(p.ended)
	free, busy := p.free, p.lanes
	p.free = nil
	for _, l := range free {
		delete(busy, l.id)
		l.close()
	}
	for _, l := range busy {
		l.wake()
	}
	p.mu.Unlock()
	_ = p.conn.socket.Close()
	p.usage.close()
}

// kill ends the process, which says nothing about a run in it. Why is for people.
func (p *process) kill(why string) { p.finish(killing{why: why}) }

// killForRun ends the process because of what a run in it does.
func (p *process) killForRun(why string) { p.finish(killing{why: why, byRun: true}) }

func (p *process) finish(k killing) {
	p.mu.Lock()
	if p.killed.why == "" {
		p.killed = k
	}
	p.mu.Unlock()
	_ = p.command.Process.Kill() // it may be dead already
}

// listen hands answers to the callers that wait for them. A worker that says something incomprehensible is ended.
func (p *process) listen() {
	for {
		m, _, err := p.conn.receive()
		if err != nil {
			if !errors.Is(err, io.EOF) && !isDead(p.ended) { // else it dies, and await says of what
				p.kill(fmt.Sprintf("its messages cannot be read: %v", err))
			}
			return
		}
		to := answer{m.Kind, m.ID}
		if m.Kind == helloMessage {
			to.id = 0
		}
		p.mu.Lock()
		waiter := p.replies[to]
		p.mu.Unlock()
		if waiter != nil {
			select {
			case waiter <- m:
			default: // nobody asked for a second one
			}
		}
	}
}

// expect prepares for an answer, before it is asked for; reply waits for it. forget must follow.
func (p *process) expect(a answer) chan *message {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiter := make(chan *message, 1)
	p.replies[a] = waiter
	return waiter
}

func (p *process) forget(a answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.replies, a)
}

func (p *process) reply(ctx context.Context, waiter chan *message) (*message, error) {
	select {
	case m := <-waiter:
		return m, nil
	case <-p.ended:
		select {
		case m := <-waiter:
			return m, nil
		default:
			return nil, p.cause
		}
	case <-ctx.Done():
		select {
		case m := <-waiter: // this process may have been stopped meanwhile, too
			return m, nil
		default:
			return nil, context.Cause(ctx)
		}
	}
}

// ask sends a message about a session, with a file that may be nil, and waits for the answer to it, which is of another
// kind. The error may be that the file is closed.
func (p *process) ask(ctx context.Context, m *message, to kind, file *os.File) (*message, error) {
	expected := answer{to, m.ID}
	waiter := p.expect(expected)
	defer p.forget(expected)
	// The answer, or the end of the process, says more than an error of send.
	if err := numbered(file, func(files ...int) { _ = p.send(m, files...) }); err != nil {
		return nil, err
	}
	got, err := p.reply(ctx, waiter)
	if err != nil {
		return nil, err
	}
	return got, got.Fault.err()
}

// closePatience is how long closing a session may take.
const closePatience = 10 * time.Second

// closeSession closes a session that is open. A process that takes too long for that is ended, so that nobody waits for
// it for ever.
func (p *process) closeSession(id uint32) error {
	late := p.clock.AfterFunc(p.closing, func() {
		p.kill(fmt.Sprintf("it did not close a session within %v", p.closing))
	})
	defer late.Stop()
	_, err := p.ask(context.Background(), &message{Kind: closeMessage, ID: id}, closedMessage, nil)
	if _, died := errors.AsType[*DeathError](err); died {
		return nil
	}
	return err
}

// send sends a message, with files. A process that cannot be written to is ended; the error says how it ended.
func (p *process) send(m *message, files ...int) error {
	err := p.conn.send(m, files...)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		p.kill(fmt.Sprintf("it did not take a message within %v", p.deaf))
	default:
		p.kill(fmt.Sprintf("it cannot be written to: %v", err))
	}
	<-p.ended
	return p.cause
}

func isDead(ended chan struct{}) bool {
	select {
	case <-ended:
		return true
	default:
		return false
	}
}

// runningLocked returns the names of the versions whose runs are under way, each once.
func (p *process) runningLocked() (names []string) {
	for _, l := range p.lanes {
		if l.session != nil {
			names = append(names, l.session.source.version)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// take returns a lane that nobody uses, for a run of a session. give must follow.
func (p *process) take(s *Session) (*lane, error) {
	p.mu.Lock()
	if n := len(p.free); n > 0 && !isDead(p.ended) {
		defer p.mu.Unlock()
		l := p.free[n-1]
		p.free = p.free[:n-1]
		l.session = s
		return l, nil
	}
	p.made++
	id := p.made
	p.mu.Unlock()
	l, err := newLane(p, id)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if isDead(p.ended) {
		l.close()
		return nil, p.cause
	}
	p.lanes[id], l.session = l, s
	return l, nil
}

func (p *process) give(l *lane) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if isDead(p.ended) {
		delete(p.lanes, l.id)
		l.close()
		return
	}
	p.free, l.session = append(p.free, l), nil
}

// death returns why the process is dead, or nil.
func (p *process) death() *DeathError {
	if isDead(p.ended) {
		return p.cause
	}
	return nil
}

// crashed is the error of a run that its process did not survive.
func crashed(cause *DeathError) error {
	if cause.Exceeded > 0 {
		return &engine.Error{Kind: engine.Crashed, Err: &engine.BoundError{Bound: cause.Exceeded, Err: cause}}
	}
	return &engine.Error{Kind: engine.Crashed, Err: cause}
}

// asCrash gives an error that says that the process died the kind of one.
func asCrash(err error) error {
	if cause, is := errors.AsType[*DeathError](err); is {
		return crashed(cause)
	}
	return err
}

const (
	// deafPatience is how long a process may take to read a message, and to say that it lives. One that is stopped, or
	// hangs as a whole, never does. It would hold up anybody who has something to say to it, such as the batch threads,
	// and as the spare one it would take the place of a worker that died, and serve nothing.
	deafPatience = 5 * time.Second
	// pulsePeriod is how often a process is asked whether it lives.
	pulsePeriod = time.Second
)

// watchPulse ends the process once it does not say that it lives. Its runs and openings do not keep it from that.
func (p *process) watchPulse() {
	for {
		select {
		case <-p.ended:
			return
		case <-time.After(pulsePeriod):
		}
		ctx, cancel := p.clock.WithTimeoutCause(context.Background(), p.deaf, context.DeadlineExceeded)
		_, err := p.ask(ctx, &message{Kind: pingMessage}, pongMessage, nil)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			p.kill(fmt.Sprintf("it did not answer within %v", p.deaf))
			return
		}
	}
}
