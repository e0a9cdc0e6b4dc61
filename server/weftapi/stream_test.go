package weftapi_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/server/servertest/script"
	"github.com/weftserve/weft/sharedsched"
)

// streaming plays scripts: requests on streams to a server whose model a script holds. Each event is answered by what
// came on the streams since the one before, in order of their text.
//
//	server 2                  of so many requests in flight on a stream, before the first one is opened
//	holds [1]                 calls, or those of version 1, wait to be released: of version 1 as if they ran already,
//	                          for the end of a context does not stop them
//	open s [for=1m]           a stream, and so long as its deadline
//	send s a [model=x] [version=1] [rows=2] [timeout=1h] [episode=e] [end] [supersede]    "-" is no id, "long" a long one
//	release [2]               lets all calls go that wait, or the first of them
//	panics, full              how calls end from then on
//	calls                     the limits of calls since it was asked last, how many wait, and how those ended that failed
//	close s, cancel s, retire, leave, drain, drained
type streaming struct {
	t       *testing.T
	house   *servertest.House
	streams map[string]weftv1.PredictionService_PredictStreamClient
	cancel  map[string]context.CancelFunc
	ends    func(context.Context, *catalog.Call) error
	holds   string

	mu      sync.Mutex
	came    []string        // guarded by mu, as all that follow
	waiting []chan struct{} // of calls
	calls   []string
	drained error
}

var errRunning = errors.New("it goes on")

func newStreaming(t *testing.T) *streaming {
	return &streaming{
		t: t, streams: map[string]weftv1.PredictionService_PredictStreamClient{}, cancel: map[string]context.CancelFunc{},
		ends: servertest.RunPolicy, holds: "none", drained: errRunning,
	}
}

func (s *streaming) serve(c server.Config) {
	s.house = servertest.New(s.t, c)
	s.house.Run = func(ctx context.Context, call *catalog.Call) error {
		limit := "no limit"
		if !call.Limit.IsZero() {
			limit = "limit in " + time.Until(call.Limit).String()
		}
		free := make(chan struct{})
		s.mu.Lock()
		s.calls = append(s.calls, limit)
		if held := s.holds == "" || s.holds == strconv.FormatInt(call.Version.Number, 10); held {
			s.waiting = append(s.waiting, free)
		} else {
			close(free)
		}
		s.mu.Unlock()
		if call.Version.Number == 1 {
			<-free
			return s.ends(ctx, call)
		}
		select {
		case <-free:
			return s.ends(ctx, call)
		case <-ctx.Done():
			s.mu.Lock()
			defer s.mu.Unlock()
			s.waiting = slices.DeleteFunc(s.waiting, func(c chan struct{}) bool { return c == free })
			s.calls = append(s.calls, "ended: "+context.Cause(ctx).Error())
			return context.Cause(ctx)
		}
	}
}

// open opens a stream, and reads what comes on it.
func (s *streaming) open(name, wait string) string {
	ctx, cancel := context.WithCancel(s.t.Context())
	if d, err := time.ParseDuration(wait); err == nil {
		ctx, cancel = context.WithTimeout(s.t.Context(), d)
	}
	stream, err := s.house.Predictions.PredictStream(ctx)
	if err != nil {
		cancel()
		return err.Error()
	}
	s.streams[name], s.cancel[name] = stream, cancel
	s.t.Cleanup(cancel)
	go func() {
		for {
			m, err := stream.Recv()
			text := fmt.Sprintf("%s: %s: version %d", name, m.GetRequestId(), m.GetResponse().GetModel().GetVersion())
			if e := status.FromProto(m.GetError()); e.Code() != codes.OK {
				text = fmt.Sprintf("%s: %.10s: %v %s (%d details)", name, m.GetRequestId(), e.Code(), e.Message(), len(e.Details()))
			} else if m.GetResponse().GetRequestId() != m.GetRequestId() {
				text += " with another id"
			}
			if err != nil {
				text = fmt.Sprint(name, " ended: ", err)
			}
			s.mu.Lock()
			s.came = append(s.came, text)
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return ""
}

func (s *streaming) send(words []string) {
	id := words[1]
	switch id {
	case "-":
		id = ""
	case "long":
		id = strings.Repeat("x", 257)
	}
	m := &weftv1.PredictStreamRequest{Request: servertest.Observation(id)}
	for _, word := range words[2:] {
		key, value, _ := strings.Cut(word, "=")
		n, _ := strconv.ParseInt(value, 10, 64)
		switch key {
		case "model":
			m.Request.Model.Name = value
		case "version":
			m.Request.Model.VersionChoice = &weftv1.ModelSpec_Version{Version: n}
		case "rows":
			m.Request.Inputs = servertest.Observation(id, make([]float32, 4*n)...).GetInputs()
		case "timeout":
			d, err := time.ParseDuration(value)
			if err != nil {
				s.t.Error(err)
			}
			m.Timeout = durationpb.New(d)
		case "episode":
			m.Request.EpisodeId = value
		case "end":
			m.Request.EndOfEpisode = true
		case "supersede":
			m.Supersede = true
		}
	}
	if err := s.streams[words[0]].Send(m); err != nil {
		s.t.Log(err) // what ended the stream is read
	}
}

func (s *streaming) event(line string) string {
	words := strings.Fields(line)
	rest := append(slices.Clone(words[1:]), "", "")
	n, _ := strconv.Atoi(rest[0])
	if s.house == nil {
		c := server.Config{}
		if words[0] == "server" {
			c.MaxInFlightPerStream = n
		}
		s.serve(c)
	}
	answer := s.do(words[0], rest, n)
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.came
	slices.Sort(all)
	if s.came = nil; answer != "" {
		all = append(all, answer)
	}
	return strings.Join(all, "\n")
}

func (s *streaming) do(event string, rest []string, n int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch event {
	case "server":
	case "holds":
		s.holds = rest[0]
	case "panics":
		s.ends = func(context.Context, *catalog.Call) error { panic("secret") }
	case "full":
		s.ends = func(context.Context, *catalog.Call) error {
			return &sharedsched.Refusal{Reason: sharedsched.RefusedQueueFull, Queued: 1, MaxQueue: 1}
		}
	case "answers":
		s.ends = servertest.RunPolicy
	case "open":
		return s.open(rest[0], strings.TrimPrefix(rest[1], "for="))
	case "send":
		s.send(slices.DeleteFunc(rest, func(word string) bool { return word == "" }))
	case "release":
		if n == 0 {
			n, s.holds = len(s.waiting), "none"
		}
		for _, free := range s.waiting[:n] {
			close(free)
		}
		s.waiting = s.waiting[n:]
	case "calls":
		slices.Sort(s.calls)
		text := strings.Join(append(s.calls, fmt.Sprint(len(s.waiting), " wait")), ", ")
		s.calls = nil
		return text
	case "close":
		return fmt.Sprint(s.streams[rest[0]].CloseSend())
	case "cancel":
		s.cancel[rest[0]]()
	case "retire":
		s.house.Retire()
	case "leave":
		s.house.Leave()
	case "drain":
		go func() {
			err := s.house.Drain(s.t.Context())
			s.mu.Lock()
			defer s.mu.Unlock()
			s.drained = err
		}()
	case "drained":
		return fmt.Sprint(s.drained)
	default:
		return "no event"
	}
	return ""
}

func TestStreams(t *testing.T) {
	script.Play(t, "testdata/streams.txt", func(t *testing.T) func(string) string { return newStreaming(t).event })
}
