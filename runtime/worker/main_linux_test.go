package worker_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/runtime/worker"
)

// The test binary is its own worker: TestMain serves when it is started as one, or says nothing.
const (
	serves = "serve-as-a-worker"
	silent = "be-a-silent-worker"
	lies   = "be-a-lying-worker"
)

// onCPU is the worker of the processor.
var onCPU = on("cpu")

// on returns the worker of a device.
func on(device string) worker.Place { return worker.Place{Device: device} }

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == serves {
		if err := worker.Serve(engines{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) > 1 && os.Args[1] == lies {
		if err := worker.Lie(engines{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) > 1 && os.Args[1] == silent {
		signal.Notify(make(chan os.Signal, 1), unix.SIGUSR1) // else the runtime takes the wait for a deadlock
		select {}
	}
	os.Exit(m.Run())
}

// engines opens models whose name says what they do with a row.
type engines struct{}

// model is what tests open. Its one input and its one output are floats.
type model struct {
	Opens string // what opening it does, see Open; "stays": closing it hangs
	Takes int    // MiB of memory that opening it takes, for good
	Once  int    // MiB of memory that opening the first such model takes, for good
	Needs int    // MiB of memory that it takes beyond these, until the model is open
	Path  string // of an ONNX model
	On    string // the device that the engine names; "": the processor
	Load  string // whatever makes the message that asks for it long
	Tally string // see worker.Lying, as Seed is
	Seed  uint64
}

func (engines) Load() error { return nil }

func (engines) Open(_ context.Context, encoded json.RawMessage, file *os.File,
	log *slog.Logger,
) (engine.Opened, error) {
	var m model
	if err := json.Unmarshal(encoded, &m); err != nil {
		return engine.Opened{}, err
	}
	if m.Path != "" {
		lib, err := ortlib.Find()
		if err == nil {
			err = ort.Init(lib)
		}
		if err != nil {
			return engine.Opened{}, err
		}
		s, err := ort.Open(m.Path, ort.Options{})
		if err != nil {
			return engine.Opened{}, err
		}
		return engine.Opened{Session: s, Device: "cpu", Provider: s.Provider()}, nil
	}
	take(m.Takes)
	if m.Once > 0 {
		once.Do(func() { take(m.Once) })
	}
	if m.Needs > 0 {
		needed := take(m.Needs)
		<-time.After(100 * time.Millisecond) // the server looks every 50 ms, or later
		defer func() { _ = unix.Munmap(needed) }()
	}
	notes := []string{"a note"}
	name, answers := "x", tensor.Float32
	switch m.Opens {
	case "looks":
		notes = sight()
	case "dies":
		die(unix.SIGSEGV)
	case "waits": // until its file begins with another byte than 0
		log.Info("model is being opened", "event", "test_opening")
		b := [1]byte{}
		for range time.Tick(time.Millisecond) { // a file notifies nobody
			if _, err := file.ReadAt(b[:], 0); err != nil {
				return engine.Opened{}, err
			}
			if b[0] != 0 {
				break
			}
		}
	case "hangs":
		select {}
	case "misleads":
		name = misleading
	case "spells":
		answers = tensor.String
	case "rambles":
		name = strings.Repeat("x", 3<<20)
	case "loses":
		return engine.Opened{}, errLost
	case "fails":
		return engine.Opened{}, &engine.Error{Kind: engine.OutOfMemory, Err: errors.New("no memory for weights")}
	}
	log.Info("model opened", "event", "test_opened")
	s := &session{name: name, answers: answers, factor: 2, meet: make(chan struct{})}
	s.closed = func() { log.Info("model closed", "event", "test_closed") }
	if m.Opens == "stays" {
		s.closed = func() { select {} }
	}
	if file != nil {
		defer file.Close()
		var b [5]byte
		if n, err := file.ReadAt(b[:], 0); n < 4 {
			return engine.Opened{}, err
		}
		s.factor = floatsOf(b[:4])[0]
		for _, how := range []int{unix.LOCK_SH, unix.LOCK_UN} { // waits while a test has it locked
			if err := unix.Flock(int(file.Fd()), how); err != nil {
				return engine.Opened{}, err
			}
		}
		switch b[4] {
		case deadly:
			die(unix.SIGSEGV)
		case unsociable:
			if others.Load() > 0 {
				die(unix.SIGFPE)
			}
		case lost:
			return engine.Opened{}, errLost
		case unlucky:
			return engine.Opened{}, &engine.Error{Kind: engine.OutOfMemory, Err: errors.New("no memory for weights")}
		}
	}
	others.Add(1)
	return engine.Opened{Session: s, Device: cmp.Or(m.On, "cpu"), Provider: "test", Notes: notes}, nil
}

var once sync.Once

var stopSpinning atomic.Bool // which nobody sets

var others atomic.Int32 // models that were opened in this process

var errLost error = &engine.Error{Kind: engine.DeviceLost, Err: errors.New("CUDA failure 700")}

// The byte after the factor in a model's file that has opening the model end the process, or fail.
const (
	deadly     = 1
	unlucky    = 2
	lost       = 3
	unsociable = 4 // it ends the process where another one was opened before
)

// take occupies so many MiB of memory.
func take(mib int) []byte {
	if mib == 0 {
		return nil
	}
	memory, err := unix.Mmap(-1, 0, mib<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		panic(err)
	}
	for i := 0; i < len(memory); i += 4096 {
		memory[i] = 1
	}
	return memory
}

func die(s unix.Signal) {
	_ = unix.Kill(os.Getpid(), s)
	select {}
}

// session multiplies its rows, by 2 unless a file says otherwise. Some values have it do something else.
type session struct {
	runs    atomic.Uint64
	meet    chan struct{}
	factor  float32
	name    string       // of its input
	answers tensor.DType // as it declares
	closed  func()
}

// misleading is the name of an input that has more names for dimensions than dimensions.
const misleading = "misleading"

// The first value of an input that has a session do something else.
const (
	failing = -1 - iota
	segfaulting
	exiting
	hanging
	obedient // hangs until it is told to stop
	losing
	large // answers a hundred times its input
	panicking
	taking   // takes as many MiB of memory as the second value says, and gives them back
	hoarding // takes them, and goes on
	greedy   // answers as large does, whatever the limit
	telling  // answers the number of its process
	flipping // answers a string whose length it changes once its input does
	boasting // took as many hours of its device as the second value says
	meeting  // waits for another such run
	copying  // answers whether it is to copy its answer
	spinning // computes for ever
)

func (s *session) Signature() *tensor.Signature {
	spec := func(name string) tensor.Spec {
		return tensor.Spec{Name: name, DType: tensor.Float32, Shape: tensor.Shape{tensor.Unknown}, BatchDim: tensor.NoBatch}
	}
	in, out := spec(s.name), spec("y")
	out.DType = s.answers
	if s.name == misleading {
		in.DimNames = []string{"a", "b"}
	}
	return &tensor.Signature{Inputs: []tensor.Spec{in}, Outputs: []tensor.Spec{out}}
}

func (s *session) Run(ctx context.Context, b *tensor.Batch) error {
	s.runs.Add(1)
	in := b.Inputs[0]
	values := floatsOf(in.Data)
	b.DeviceTime = time.Duration(len(values))
	times := 1
	if len(values) > 0 {
		switch values[0] {
		case failing:
			return errors.New("the model fails")
		case segfaulting:
			die(unix.SIGSEGV)
		case exiting:
			os.Exit(3)
		case hanging:
			select {}
		case spinning:
			for !stopSpinning.Load() {
			}
		case obedient:
			<-ctx.Done()
			return &engine.Error{Kind: engine.Terminated, Err: ctx.Err()}
		case losing:
			return errLost
		case greedy:
			b.Most = 0
			times = 100
		case large:
			times = 100
		case taking:
			_ = unix.Munmap(take(int(values[1])))
		case hoarding:
			take(int(values[1]))
			select {}
		case panicking:
			panic("of the engine")
		case flipping:
			text := b.Output(0, tensor.String, tensor.Shape{1}, 8)
			binary.LittleEndian.PutUint32(text, 4)
			go func() {
				for floatsOf(in.Data)[0] == flipping {
					runtime.Gosched()
				}
				binary.LittleEndian.PutUint32(text, math.MaxUint32)
			}()
			return nil
		case boasting:
			b.DeviceTime = time.Duration(values[1]) * time.Hour
		case meeting:
			select {
			case s.meet <- struct{}{}:
			case <-s.meet:
			case <-ctx.Done():
				return &engine.Error{Kind: engine.Terminated, Err: ctx.Err()}
			}
		case copying:
			if values[0] = 0; b.Copied {
				values[0] = 1
			}
		case telling:
			values[0] = float32(os.Getpid()) / s.factor
		}
	}
	out := b.Output(0, tensor.Float32, tensor.Shape{int64(times * len(values))}, times*len(in.Data))
	for i := range times * len(values) {
		binary.LittleEndian.PutUint32(out[4*i:], math.Float32bits(s.factor*values[i%len(values)]))
	}
	return nil
}

func (s *session) Stats() engine.Stats {
	return engine.Stats{Graphs: engine.Graphs{Known: true, Eager: s.runs.Load()}}
}

func (s *session) Close() error {
	s.closed()
	return nil
}

func floatsOf(data []byte) []float32 {
	values := make([]float32, len(data)/4)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return values
}
