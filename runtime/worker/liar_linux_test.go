package worker

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/runtime/worker/sandbox"
)

// liar is a worker that a model has taken over: it says to the server whatever harms it. Until such a model is opened
// it is an honest worker, and it remains one in what it does not change.
type liar struct {
	child
	told *conn         // messages of the honest worker
	out  *conn         // to the server
	lies atomic.Bool   // such a model is open, or being opened
	done atomic.Bool   // it is open
	sent *atomic.Int64 // lies, of all such workers

	mu    sync.Mutex
	rng   *rand.Rand // guarded by mu
	often int        // guarded by mu: a lie in so many answers
}

// The models that have their worker lie: from the moment on at which one is being opened, or once it is open.
const (
	Lies      = "lies"
	LiesLater = "lies later"
)

// Lying is the part of such a model that a liar reads.
type Lying struct {
	Opens string
	Tally string // a file of eight bytes: the number of lies
	Seed  uint64
}

// Lie is Serve of such a worker.
func Lie(e Engine) error {
	unix.CloseOnExec(socketFile)
	server, err := newConn(os.NewFile(socketFile, "server"), maxRequest, maxFiles, maxAnswer)
	if err != nil {
		return err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	own, err := newConn(os.NewFile(uintptr(pair[0]), "own"), maxRequest, maxFiles, maxAnswer)
	if err != nil {
		return err
	}
	told, err := newConn(os.NewFile(uintptr(pair[1]), "told"), maxAnswer, 0, maxRequest)
	if err != nil {
		return err
	}
	l := &liar{told: told, out: server, rng: rand.New(rand.NewPCG(0, 0)), sent: new(atomic.Int64)}
	l.child = child{
		conn: own, engine: e, log: newLogger(os.Stderr), sessions: map[uint32]*held{}, lanes: map[uint32]*servedLane{},
		opening: map[uint32]chan struct{}{}, slabs: newSlabTable(),
	}
	if _, _, err := server.receive(); err != nil {
		return err
	}
	if err := server.send(&message{Kind: helloMessage, ID: protocol, Fault: faultOf(e.Load())}); err != nil {
		return err
	}
	go l.pass()
	for {
		m, files, err := server.receive()
		if err != nil {
			return err // the server has ended it
		}
		if m.Kind == openMessage {
			l.look(m)
		}
		if m.Kind == laneMessage {
			l.lane(files[0], files[1])
			continue
		}
		if err := l.handle(m, files); err != nil {
			return err
		}
	}
}

// look finds out whether a model has the worker lie.
func (l *liar) look(m *message) {
	var is Lying
	if json.Unmarshal(m.Model, &is) != nil || !strings.HasPrefix(is.Opens, Lies) {
		return
	}
	if file, err := os.OpenFile(is.Tally, os.O_RDWR, 0); err == nil {
		defer file.Close()
		if memory, err := mapShared(int(file.Fd()), 8); err == nil {
			l.sent = (*atomic.Int64)(unsafe.Pointer(&memory[0]))
		}
	}
	l.mu.Lock()
	l.rng = rand.New(rand.NewPCG(is.Seed, uint64(l.sent.Load())))
	l.often = []int{1, 3, 10, 50}[l.rng.IntN(4)]
	l.mu.Unlock()
	l.done.Store(is.Opens == Lies)
	l.lies.Store(true)
}

// pass hands messages of the honest worker to the server, and lies.
func (l *liar) pass() {
	for {
		m, _, err := l.told.receive()
		if err != nil {
			return
		}
		if !l.lies.Load() || !l.done.Load() {
			l.done.CompareAndSwap(false, l.lies.Load() && m.Kind == openedMessage)
			_ = l.out.send(m)
			continue
		}
		l.mu.Lock()
		for range l.burst() {
			l.lie(l.message())
		}
		if l.rng.IntN(l.often) > 0 {
			_ = l.out.send(m)
		} else {
			l.spoil(m)
			l.lie(m)
		}
		l.mu.Unlock()
	}
}

// burst returns how many messages come that nobody asked for.
func (l *liar) burst() int { return l.rng.IntN(2) * l.rng.IntN(400) }

// number returns an integer that somebody may have forgotten.
func (l *liar) number() int64 {
	all := [...]int64{
		0, 1, 2, 3, 4, 7, 8, -1, -2, 255, 256, 257, 4096, 1 << 20, 1 << 31, 1 << 32, 1 << 40, 1<<62 + 1, math.MaxInt64,
		math.MinInt64, math.MaxInt32, math.MaxUint32,
	}
	return all[l.rng.IntN(len(all))]
}

func (l *liar) text() string {
	all := [...]string{"", "x", "y", "cpu", "cuda:0", "\x00\n\x1b[31m", "é", strings.Repeat("a", 1000), "%s%d%n"}
	return all[l.rng.IntN(len(all))]
}

func (l *liar) shape() (s tensor.Shape) {
	for range l.rng.IntN(5) {
		s = append(s, l.number())
	}
	return s
}

func (l *liar) spec() tensor.Spec {
	s := tensor.Spec{Name: l.text(), DType: tensor.DType(l.rng.IntN(18)), Shape: l.shape(), BatchDim: tensor.NoBatch}
	switch l.rng.IntN(8) {
	case 0:
		s.BatchDim = int(l.number())
	case 1:
		s.DimNames = make([]string, l.rng.IntN(5))
	case 2:
		s.Variable = &tensor.Variable{Dim: int(l.number())}
	case 3:
		s.Shown = &tensor.Shown{Shape: l.shape(), Own: l.shape(), Labels: []string{l.text()}}
	}
	return s
}

func (l *liar) opened() *opened {
	o := &opened{Device: processor, Provider: l.text(), Signature: &tensor.Signature{}}
	one := tensor.Spec{Name: "x", DType: tensor.Float32, Shape: tensor.Shape{tensor.Unknown}, BatchDim: tensor.NoBatch}
	o.Signature.Inputs, o.Signature.Outputs = []tensor.Spec{one}, []tensor.Spec{one}
	for range l.rng.IntN(3) {
		switch l.rng.IntN(6) {
		case 0:
			o.Signature = nil
			return o
		case 1:
			o.Device = l.text()
		case 2:
			o.Signature.Inputs = append(o.Signature.Inputs[:l.rng.IntN(2)], l.spec())
		case 3:
			o.Signature.Outputs = append(o.Signature.Outputs[:l.rng.IntN(2)], l.spec())
		case 4:
			o.Notes = make([]string, l.rng.IntN(2000))
		default:
			o.Stats = l.stats()
		}
	}
	return o
}

func (l *liar) stats() engine.Stats {
	return engine.Stats{
		Graphs:  engine.Graphs{Known: l.rng.IntN(2) == 0, Replayed: uint64(l.number()), Eager: uint64(l.number())},
		Memory:  engine.Memory{Known: l.rng.IntN(2) == 0, Peak: l.number(), Held: l.number()},
		Process: engine.Process{Deaths: uint64(l.number()), Cause: l.text()},
	}
}

// message returns a message that nobody asked for, or that answers another question.
func (l *liar) message() *message {
	kinds := [...]kind{
		helloMessage, openedMessage, closedMessage, pongMessage, openMessage, stopMessage, "", kind(l.text()),
	}
	m := &message{Kind: kinds[l.rng.IntN(len(kinds))], ID: uint32(l.rng.IntN(6)), Size: uint64(l.number())}
	l.spoil(m)
	return m
}

// spoil changes the content of a message.
func (l *liar) spoil(m *message) {
	switch l.rng.IntN(8) {
	case 0:
		m.Fault = &fault{engine.Kind(l.rng.IntN(9)), l.text()}
	case 1, 2:
		m.Opened = l.opened()
	case 3:
		m.Opened = nil
	case 4:
		m.ID = uint32(l.number())
	case 5:
		m.Confined = &sandbox.Report{Missing: []string{l.text()}}
	case 6:
		m.Kind = kind(l.text())
	}
}

// lie sends a message, seldom as it should be sent. The caller holds mu.
func (l *liar) lie(m *message) {
	l.sent.Add(1)
	body, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	var header [headerBytes]byte
	length, files, attached := uint32(len(body)), uint32(0), 0
	switch l.rng.IntN(1000) {
	case 0:
		length = uint32(l.number())
	case 1:
		files = uint32(l.number())
	case 2, 3, 4: // with descriptors that are not announced, or are, and perhaps a body that cannot be read
		attached = 1 + l.rng.IntN(5)
		files = uint32(attached * l.rng.IntN(2))
		if l.rng.IntN(2) == 0 {
			body[0] = 'x'
		}
	case 5:
		body[l.rng.IntN(len(body))] ^= byte(1 << l.rng.IntN(8))
	case 6:
		body = body[:l.rng.IntN(len(body))]
		defer func() { _ = unix.Kill(os.Getpid(), unix.SIGKILL) }()
	case 7:
		body = []byte(strings.Repeat("[", int(length)))
	case 8:
		body = []byte(`{"kind":"opened","id":1,"opened":{"signature":{"inputs":[` + strings.Repeat("{},", 200_000) + "{}]}}}")
		length = uint32(len(body))
	}
	binary.LittleEndian.PutUint32(header[:], length)
	binary.LittleEndian.PutUint32(header[4:], files)
	var rights []byte
	if attached > 0 {
		null, err := os.Open(os.DevNull)
		if err != nil {
			panic(err)
		}
		defer null.Close()
		all := make([]int, attached)
		for i := range all {
			all[i] = int(null.Fd())
		}
		rights = unix.UnixRights(all...)
	}
	l.out.sending.Lock()
	defer l.out.sending.Unlock()
	_, _, _ = l.out.socket.WriteMsgUnix(header[:], rights, nil)
	_, _ = l.out.socket.Write(body)
}

// lane serves a lane as an honest worker does, but for the answers.
func (l *liar) lane(file, event int) {
	memory, err := mapShared(file, pageBytes)
	_ = unix.Close(file)
	if err != nil {
		panic(err)
	}
	s := &servedLane{child: &l.child, page: newPage(memory, waiter{yield: yieldThread})}
	s.page.answered.event = event
	go func() {
		for s.page.asked.wait() == nil {
			c := s.run(&cursor{half: s.page.request})
			if l.lies.Load() && l.done.Load() {
				l.mu.Lock()
				l.answer(s, c)
				l.mu.Unlock()
			}
			s.reply(c)
		}
	}()
}

// answer changes an answer to a run. The caller holds mu.
func (l *liar) answer(s *servedLane, c *cursor) {
	if l.rng.IntN(l.often) > 0 {
		return
	}
	for range l.burst() {
		l.lie(l.message())
	}
	l.sent.Add(1)
	switch l.rng.IntN(12) {
	case 0: // any word of it
		for range 1 + l.rng.IntN(3) {
			binary.LittleEndian.PutUint64(s.page.answer[8*l.rng.IntN(40):], uint64(l.number()))
		}
	case 1: // its length
		c.at = int(l.number())
	case 2: // another kind of answer
		*c = *s.respond(l.number())
		c.put(l.number(), l.number(), l.number())
	case 3: // room for an output
		*c = *s.respond(moreAnswer)
		c.put(int64(l.rng.IntN(3)-1), l.number())
	case 4: // a failure
		*c = *s.respond(failedAnswer)
		c.putStats(time.Duration(l.number()), l.stats())
		c.put(int64(l.rng.IntN(10)), l.number())
		c.putText(l.text())
	case 5, 6, 7: // outputs of another type, or shape, of as many bytes
		l.outputs(s, c)
	case 8: // statistics, and the time of the device
		*c = *s.respond(doneAnswer)
		c.putStats(time.Duration(l.number()), l.stats())
		for i := range s.rooms {
			c.putTensor(0, &s.batch.Outputs[i])
		}
	case 9:
		if l.rng.IntN(20) == 0 {
			_ = unix.Kill(os.Getpid(), []unix.Signal{unix.SIGKILL, unix.SIGSEGV}[l.rng.IntN(2)])
		}
	}
}

// outputs answers outputs that agree with themselves, but not with what the model declares.
func (l *liar) outputs(s *servedLane, c *cursor) {
	if s.of == nil || s.batch.Outputs[0].DType == tensor.Invalid {
		return
	}
	*c = *s.respond(doneAnswer)
	c.putStats(0, l.stats())
	for _, out := range s.batch.Outputs {
		out.DType = tensor.DType(1 + l.rng.IntN(13))
		n := int64(len(out.Data) / out.DType.Size())
		switch l.rng.IntN(6) {
		case 0:
			out.Shape = tensor.Shape{n}
		case 1:
			out.Shape = tensor.Shape{1, n, 1}
		default: // as many elements as there are rows
			n, _ = out.Shape.Elements()
		}
		out.Data = make([]byte, int(n)*out.DType.Size())
		c.putTensor(0, &out)
	}
}
