package worker

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/runtime/tensor"
)

// connected returns the two ends of a socket. The worker's sends whatever it likes.
func connected(t *testing.T) (server, worker *conn) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*conn
	for i := range ends {
		end := os.NewFile(uintptr(pair[i]), "end")
		if ends[i], err = newConn(end, maxAnswer, 0, math.MaxInt); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ends[i].socket.Close() })
	}
	return ends[0], ends[1]
}

// TestLongMessages: the server takes no message that is longer than that of any model, and keeps no text that is longer
// than an error's.
func TestLongMessages(t *testing.T) {
	for text, want := range map[int]bool{maxText: true, maxAnswer / 2: true, maxAnswer: false} {
		server, worker := connected(t)
		go func() { // the socket holds less, and nobody may read it
			_ = worker.send(&message{Kind: openedMessage, Fault: &fault{Text: strings.Repeat("x", text)}})
		}()
		m, _, err := server.receive()
		if long, is := errors.AsType[*tooLongError](err); is == want || is && long.most != maxAnswer {
			t.Errorf("a text of %d bytes: %v", text, err)
		}
		if want && len(m.Fault.err().Error()) != maxText {
			t.Errorf("of a text of %d bytes, %d are kept", text, len(m.Fault.err().Error()))
		}
	}
}

// TestFilesOfAWorker: descriptors that a worker sends never get a number in the server, where another file may have it
// by the time at which it is closed.
func TestFilesOfAWorker(t *testing.T) {
	for body, good := range map[string]bool{"{}": true, "x": false} {
		server, worker := connected(t)
		header := [headerBytes]byte{byte(len(body))}
		if _, _, err := worker.socket.WriteMsgUnix(header[:], unix.UnixRights(0, 1, 2), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := worker.socket.Write([]byte(body)); err != nil {
			t.Fatal(err)
		}
		if m, files, err := server.receive(); len(files) > 0 || (m != nil) != good || (err == nil) != good {
			t.Errorf("%s with descriptors: %v, files %v, %v", body, m, files, err)
		}
	}
}

// TestOpenedChecks: what no engine can have said of a model is refused.
func TestOpenedChecks(t *testing.T) {
	one := func(s tensor.Spec) *opened { return &opened{Signature: &tensor.Signature{Outputs: []tensor.Spec{s}}} }
	good := tensor.Spec{
		DType: tensor.String, Shape: tensor.Shape{tensor.Unknown, 3}, DimNames: []string{"n", ""}, BatchDim: tensor.NoBatch,
	}
	of := func(change func(s *tensor.Spec)) *opened {
		s := good
		change(&s)
		return one(s)
	}
	most := &tensor.Signature{Inputs: slices.Repeat([]tensor.Spec{good}, 5000)}
	for want, o := range map[string]*opened{
		"":                        one(good),
		"no signature":            {},
		"element type dtype(200)": of(func(s *tensor.Spec) { s.DType = 200 }),
		"element type invalid":    of(func(s *tensor.Spec) { s.DType = tensor.Invalid }),
		"with 1 names":            of(func(s *tensor.Spec) { s.DimNames = s.DimNames[:1] }),
		"of size -2":              of(func(s *tensor.Spec) { s.Shape = tensor.Shape{1, -2} }),
		"a batch dimension":       of(func(s *tensor.Spec) { s.BatchDim = 0 }),
		"a variable one":          of(func(s *tensor.Spec) { s.Variable = &tensor.Variable{} }),
		"one that clients see":    of(func(s *tensor.Spec) { s.Shown = &tensor.Shown{} }),
		"it has 6000 inputs":      {Signature: &tensor.Signature{Inputs: slices.Repeat(most.Inputs, 2)[:6000]}},
		"1001 notes":              {Signature: most, Notes: make([]string, 1001)},
		"name of the provider":    {Signature: most, Provider: strings.Repeat("p", 1000)},
	} {
		err := o.check(o.Device)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := (&opened{Signature: most}).check(""); err != nil {
		t.Error(err)
	}
}

// TestGivenUp: a session whose opening was given up is opened another time once it is closed, and no answer is taken
// for another one.
func TestGivenUp(t *testing.T) {
	server, worker := connected(t)
	p := &process{
		conn: server, ended: make(chan struct{}), replies: map[answer]chan *message{}, givenUp: map[uint32]chan struct{}{},
	}
	defer close(p.ended)
	go p.listen()
	hears := func(want kind) {
		t.Helper()
		if m, _, err := worker.receive(); err != nil || m.Kind != want {
			t.Fatalf("the worker hears %+v, %v; want %s", m, err, want)
		}
	}
	says := func(m *message) {
		t.Helper()
		if err := worker.send(m); err != nil {
			t.Fatal(err)
		}
	}
	const id = 7
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.open(ctx, id, source{}); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	hears(openMessage)
	hears(closeMessage)
	if _, err := p.open(ctx, id, source{}); !errors.Is(err, context.Canceled) {
		t.Errorf("given up before it could begin: %v", err)
	}
	if err := p.send(&message{Kind: unmapMessage}); err != nil {
		t.Fatal(err)
	}
	hears(unmapMessage) // and nothing before it
	says(&message{Kind: openedMessage, ID: id, Opened: &opened{Provider: "first"}})
	says(&message{Kind: closedMessage, ID: id})
	again := make(chan *message, 1)
	go func() {
		m, err := p.open(t.Context(), id, source{})
		if err != nil {
			t.Error(err)
		}
		again <- m
	}()
	hears(openMessage)
	says(&message{Kind: openedMessage, ID: id, Opened: &opened{Provider: "second"}})
	if m := <-again; m == nil || m.Opened == nil || m.Opened.Provider != "second" {
		t.Errorf("opened as %+v", m)
	}
}
