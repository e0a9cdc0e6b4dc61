package protect

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// house is a guarded server whose only method answers as many bytes as it is asked for, or when its caller is gone.
type house struct {
	*Connections

	at string
}

// unanswered asks for no answer.
const unanswered = -1

func serve(t *testing.T, c Config) *house {
	t.Helper()
	c.Logger = slog.New(slog.DiscardHandler)
	g := New(c)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.Creds(g.Credentials(insecure.NewCredentials(), nil)), grpc.WaitForHandlers(true),
		grpc.StaticStreamWindowSize(16<<20), grpc.StaticConnWindowSize(16<<20))
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "test", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "Bytes",
		Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			h := Handle(ctx)
			defer h.End(false)
			h.Reads(true)
			var size wrapperspb.Int64Value
			if err := decode(&size); err != nil {
				return nil, err
			}
			h.Read(5 + proto.Size(&size))
			if size.GetValue() == unanswered {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			answer := &wrapperspb.BytesValue{Value: make([]byte, size.GetValue())}
			h.Answers(proto.Size(answer))
			return answer, nil
		},
	}}}, nil)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.Serve(g.Listen(l, time.Minute))
	}()
	go g.Watch(t.Context())
	t.Cleanup(func() {
		s.Stop()
		<-served
	})
	return &house{g, l.Addr().String()}
}

// client returns one of gRPC.
func (h *house) client(t *testing.T) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient(h.at, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func ask(ctx context.Context, c *grpc.ClientConn, size int64) error {
	var answer wrapperspb.BytesValue
	if err := c.Invoke(ctx, "/test/Bytes", wrapperspb.Int64(size), &answer); err != nil {
		return err
	}
	if len(answer.GetValue()) != int(size) {
		return fmt.Errorf("%d bytes, want %d", len(answer.GetValue()), size)
	}
	return nil
}

// TestHTTP1IsToldWhereItIsSpoken, where gRPC would begin with frames.
func TestHTTP1IsToldWhereItIsSpoken(t *testing.T) {
	for pages, want := range map[string]string{
		"127.0.0.1:9001": "This address speaks gRPC only; HTTP and JSON are at 127.0.0.1:9001.\n",
		"":               "This address speaks gRPC only; HTTP and JSON need --http.\n",
	} {
		h := serve(t, Config{Pages: pages})
		body := strings.NewReader(strings.Repeat("x", 1<<16))
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+h.at+"/v1/models/m:predict", body)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		if answer.StatusCode != http.StatusBadRequest || string(text) != want || err != nil {
			t.Errorf("%d %q, %v", answer.StatusCode, text, err)
		}
		_ = answer.Body.Close()
	}
}

// raw is a connection of a client that writes what frames it likes.
type raw struct {
	*http2.Framer
	net.Conn

	t      *testing.T
	block  bytes.Buffer
	encode *hpack.Encoder
	next   uint32

	path, contentType string // of calls
}

func (h *house) raw(t *testing.T, window uint32) *raw {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", h.at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	r := &raw{Framer: http2.NewFramer(c, c), Conn: c, t: t, next: 1, path: "/test/Bytes", contentType: "application/grpc"}
	r.encode = hpack.NewEncoder(&r.block)
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	r.must(r.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}))
	return r
}

// must takes errors of a connection that was ended: the test finds out by reading.
func (r *raw) must(error) {}

func (r *raw) headers(more ...hpack.HeaderField) []byte {
	r.block.Reset()
	for _, f := range append([]hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: r.path},
		{Name: ":authority", Value: "test"},
		{Name: "content-type", Value: r.contentType},
		{Name: "te", Value: "trailers"},
	}, more...) {
		_ = r.encode.WriteField(f)
	}
	return r.block.Bytes()
}

// begin begins a call, and returns its stream.
func (r *raw) begin() uint32 {
	id := r.next
	r.next += 2
	r.must(r.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: r.headers(), EndHeaders: true}))
	return id
}

// call makes a whole call.
func (r *raw) call(size int64) uint32 {
	id := r.begin()
	b, err := proto.Marshal(wrapperspb.Int64(size))
	if err != nil {
		r.t.Fatal(err)
	}
	r.must(r.WriteData(id, true, append([]byte{0, 0, 0, 0, byte(len(b))}, b...)))
	return id
}

// ends reads until the server closes the connection, and returns what it said last.
func (r *raw) ends() (code http2.ErrCode, why string) {
	r.t.Helper()
	_ = r.SetReadDeadline(time.Now().Add(time.Minute))
	for {
		f, err := r.ReadFrame()
		if err != nil {
			return code, why
		}
		if g, is := f.(*http2.GoAwayFrame); is {
			code, why = g.ErrCode, string(g.DebugData())
			if why == explain(Resets) || why == explain(Refusals) {
				return code, why // it takes its time
			}
		}
	}
}

// TestEnds: who does what no client of gRPC does is told so, and its connection is ended, while another's calls are all
// answered.
func TestEnds(t *testing.T) {
	for name, c := range map[string]struct {
		why Reason
		do  func(*raw)
	}{
		"settings": {IdleFrames, func(r *raw) {
			for range 1000 {
				r.must(r.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 16}))
			}
		}},
		"acknowledged settings": {IdleFrames, func(r *raw) {
			for range 5000 {
				r.must(r.WriteSettingsAck())
			}
		}},
		"priorities": {IdleFrames, func(r *raw) {
			for i := range uint32(5000) {
				r.must(r.WritePriority(2*i+1, http2.PriorityParam{}))
			}
		}},
		"window updates": {IdleFrames, func(r *raw) {
			for range 5000 {
				r.must(r.WriteWindowUpdate(0, 1))
			}
		}},
		"unknown frames": {IdleFrames, func(r *raw) {
			for range 5000 {
				r.must(r.WriteRawFrame(0xbe, 0, 0, nil))
			}
		}},
		"empty data": {IdleFrames, func(r *raw) {
			id := r.begin()
			for range 5000 {
				r.must(r.WriteData(id, false, nil))
			}
		}},
		"data of no call": {IdleFrames, func(r *raw) {
			r.call(1)
			for range 5000 {
				r.must(r.WriteData(1, false, nil))
			}
		}},
		"a byte at a time": {IdleFrames, func(r *raw) {
			id := r.begin()
			r.must(r.WriteData(id, false, []byte{0, 0, 1, 0, 0}))
			for range 5000 {
				r.must(r.WriteData(id, false, []byte{0}))
			}
		}},
		"continuations": {Headers, func(r *raw) {
			r.must(r.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: r.headers()}))
			for range 100 {
				r.must(r.WriteContinuation(1, false, nil))
			}
		}},
		"resets": {Resets, func(r *raw) {
			for range 300 {
				r.must(r.WriteRSTStream(r.begin(), http2.ErrCodeCancel))
			}
		}},
		"unknown methods": {Refusals, func(r *raw) {
			r.path = "/test/Nothing"
			for range 5000 {
				r.call(1)
			}
		}},
		"content types": {Refusals, func(r *raw) {
			r.contentType = "text/plain"
			for range 5000 {
				r.call(1)
			}
		}},
		"resets of whole requests": {Resets, func(r *raw) {
			for range 300 {
				r.must(r.WriteRSTStream(r.call(unanswered), http2.ErrCodeCancel))
			}
		}},
		"unread answers": {HeldBytes, func(r *raw) {
			for range 20 {
				r.call(4 << 20)
			}
		}},
		"unread requests": {HeldBytes, func(r *raw) {
			r.call(1)
			for range 20 {
				id := r.begin()
				r.must(r.WriteData(id, false, []byte{0, 0, 0x3d, 0, 0}))
				for range 220 {
					r.must(r.WriteData(id, false, make([]byte, 16<<10)))
				}
			}
		}},
		"open calls": {HeldBytes, func(r *raw) {
			for range 3000 {
				r.begin()
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of the time frames are read late
			h := serve(t, Config{MaxHeld: 16 << 20})
			honest := h.client(t)
			stop := make(chan struct{})
			var asking sync.WaitGroup
			asking.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					if err := ask(t.Context(), honest, 10_000); err != nil {
						t.Errorf("another caller: %v", err)
						return
					}
				}
			})
			r := h.raw(t, 100)
			go c.do(r)
			code, why := r.ends()
			close(stop)
			asking.Wait()
			if code != http2.ErrCodeEnhanceYourCalm && why != "" || why != "" && why != explain(c.why) {
				t.Errorf("it is told %v %q, want %q", code, why, explain(c.why))
			}
			if s := h.Stats(); s.Ended[c.why] != 1 {
				t.Errorf("ended: %v, want one by %v", s.Ended, c.why)
			}
		})
	}
}

// TestHonest: a client of gRPC that does all that one does is not ended: many calls at once, large answers, calls that
// are cancelled or run out of time, and nothing is held when it is gone.
func TestHonest(t *testing.T) {
	h := serve(t, Config{})
	for seed := range uint64(2) {
		draw := rand.New(rand.NewPCG(seed, 1))
		c := h.client(t)
		var callers sync.WaitGroup
		for range 32 {
			own := rand.New(rand.NewPCG(draw.Uint64(), 2))
			callers.Go(func() {
				for range 50 {
					size := own.Int64N(1 << (1 + own.Uint64N(20)))
					ctx, cancel := context.WithCancel(t.Context())
					if own.IntN(8) == 0 {
						cancel()
						ctx, cancel = context.WithTimeout(t.Context(), time.Duration(own.IntN(1000))*time.Microsecond)
						size = unanswered
					}
					err := ask(ctx, c, size)
					if size != unanswered && err != nil {
						t.Errorf("seed %d: %v", seed, err)
					}
					cancel()
				}
			})
		}
		callers.Wait()
		if s := h.Stats(); s.Ended != [reasons]uint64{} {
			t.Fatalf("seed %d: ended: %v", seed, s.Ended)
		}
		c.Close()
	}
	settle(t, h.Connections)
}

// settle waits until nothing is held.
func settle(t *testing.T, g *Connections) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		s := g.Stats()
		if s.Connections == 0 && s.HeldBytes == 0 {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%d connections hold %d bytes", s.Connections, s.HeldBytes)
		case <-time.After(time.Millisecond):
		}
	}
}

// TestAccount: however calls end, nothing is held once they have, and never more than was sent.
func TestAccount(t *testing.T) {
	h := serve(t, Config{})
	for seed := range uint64(3) {
		draw := rand.New(rand.NewPCG(seed, 3))
		r := h.raw(t, uint32(draw.IntN(1<<16)))
		go func() { _, _ = io.Copy(io.Discard, r.Conn) }()
		var open []uint32
		for range 300 {
			switch k := draw.IntN(6); {
			case k == 0:
				open = append(open, r.begin())
			case k == 1:
				open = append(open, r.call(draw.Int64N(100_000)))
			case k == 2:
				open = append(open, r.call(unanswered))
			case len(open) == 0:
			case k == 3:
				r.must(r.WriteData(open[draw.IntN(len(open))], draw.IntN(4) == 0, make([]byte, draw.IntN(2000))))
			default:
				i := draw.IntN(len(open))
				r.must(r.WriteRSTStream(open[i], http2.ErrCodeCancel))
				open = append(open[:i], open[i+1:]...)
			}
		}
		for _, id := range open {
			r.must(r.WriteRSTStream(id, http2.ErrCodeCancel))
		}
		deadline := time.After(time.Minute)
		for h.Stats().HeldBytes != connectionCost {
			select {
			case <-deadline:
				t.Fatalf("seed %d: %d bytes are held", seed, h.Stats().HeldBytes)
			case <-time.After(time.Millisecond):
			}
		}
		r.Close()
		settle(t, h.Connections)
	}
}

// TestExplain: each reason has words of its own.
func TestExplain(t *testing.T) {
	seen := map[string]bool{}
	for r := range Reason(reasons) {
		why := explain(r)
		if seen[why] || !strings.Contains(why, ";") || r.String() == "" {
			t.Errorf("%v: %q", r, why)
		}
		seen[why] = true
	}
}
