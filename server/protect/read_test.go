package protect

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/mem"
)

// sizes is a pool that notes what is taken.
type sizes []int

func (s *sizes) Get(size int) *[]byte {
	*s = append(*s, size)
	b := make([]byte, size)
	return &b
}

func (*sizes) Put(*[]byte) {}

// readyConn reads when it is told to, as the connections of stamp_linux.go do.
type readyConn struct{ net.Conn }

func (c readyConn) ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error) {
	b := pool.Get(size)
	n, err := c.Read(*b)
	return b, n, err
}

// TestMemoryOfReads: what is read at once may be little, but the memory for it is always of the size gRPC asks for,
// and holds all that came.
func TestMemoryOfReads(t *testing.T) {
	for name, wrap := range map[string]func(net.Conn) net.Conn{
		"plain": func(c net.Conn) net.Conn { return readyConn{c} }, "secured": func(c net.Conn) net.Conn { return c },
	} {
		theirs, ours := net.Pipe()
		a := New(Config{Logger: slog.New(slog.DiscardHandler)}).open(wrap(ours), false)
		f := frame(a, a)
		if name == "secured" {
			f.ready = nil
		}
		sent := append([]byte(http2.ClientPreface), unknown(5000)...)
		go func() {
			_, _ = theirs.Write(sent)
			theirs.Close()
		}()
		var taken sizes
		var came []byte
		for {
			b, n, err := f.ReadOnReady(32<<10, &taken)
			if err != nil {
				break
			}
			if n > firstRead+headBytes+6+prefaceBytes {
				t.Errorf("%s: %d bytes are read at once before anything is answered", name, n)
			}
			came = append(came, (*b)[:n]...)
		}
		for _, size := range taken {
			if size != 32<<10 {
				t.Errorf("%s: takes %d bytes", name, size)
			}
		}
		if len(taken) < 2 || !bytes.Equal(came, sent) {
			t.Errorf("%s: reads %d bytes in %d pieces, want %d", name, len(came), len(taken), len(sent))
		}
		f.Close()
	}
}

// unknown is so many bytes of frames that nobody knows, or a few less.
func unknown(size int) (all []byte) {
	for range size / (headBytes + 6) {
		all = append(all, 0, 0, 6, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	}
	return all
}

// TestFramesAreReadWhole: the rest of a frame begins no call, so that it may be read at once.
func TestFramesAreReadWhole(t *testing.T) {
	g := New(Config{Logger: slog.New(slog.DiscardHandler)})
	theirs, ours := net.Pipe()
	defer theirs.Close()
	a := g.open(ours, false)
	f := frame(a, a)
	defer f.Close()
	for left, want := range map[int]int{0: firstRead, 10_000: 10_000 + firstRead, 1 << 20: 32 << 10} {
		if f.in.left = left; f.size(32<<10) != want {
			t.Errorf("with %d bytes left of a frame, %d are read at once, want %d", left, f.size(32<<10), want)
		}
	}
}

// other reads a small message now and then.
func other(g *Connections) {
	for range 50 {
		Handler{account: &account{of: g}}.Read(100)
		time.Sleep(smallFor / 4)
	}
}

// TestLargeMessages take some time together beside others, and small ones none, however many.
func TestLargeMessages(t *testing.T) {
	const bytesEach = 16 << 20
	for name, c := range map[string]struct {
		size   int
		beside bool // somebody sends small ones
		slow   bool
	}{"large": {bytesEach, true, true}, "small": {largeMessage, true, false}, "alone": {bytesEach, false, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := New(Config{Logger: slog.New(slog.DiscardHandler), MaxHeld: 1 << 40})
				began, ended := time.Now(), make(chan time.Duration)
				var all sync.WaitGroup
				defer all.Wait()
				if c.beside {
					all.Go(func() { other(g) })
					synctest.Wait()
				}
				const connections = 4
				for range connections {
					p := connect(t, g)
					go func() {
						p.must(writePreface(p))
						for stream := uint32(1); stream <= 2*bytesEach/uint32(c.size); stream += 2 {
							p.must(p.WriteHeaders(http2.HeadersFrameParam{
								StreamID: stream, BlockFragment: []byte{0x82}, EndHeaders: true,
							}))
							for range c.size / maxFrame {
								p.must(p.WriteData(stream, false, make([]byte, maxFrame)))
							}
						}
						ended <- time.Since(began)
					}()
				}
				var took time.Duration
				for range connections {
					took = max(took, <-ended)
				}
				least := 0.0
				if c.slow {
					least = (connections*(bytesEach-largeMessage) - bulkBurst) / float64(g.bulk.Limit())
				}
				if s := took.Seconds(); s < 0.9*least || s > 1.1*least+0.001 {
					t.Errorf("it takes %v, want %.3f s", took, least)
				}
			})
		})
	}
}

// alone is a connection that notes whether two read it at once.
type alone struct {
	net.Conn

	readers, most atomic.Int32
}

func (c *alone) Read(b []byte) (int, error) {
	n := c.readers.Add(1)
	defer c.readers.Add(-1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	return c.Conn.Read(b)
}

func (c *alone) CloseWrite() error { return nil }

// TestOneReads a connection at a time: the server, or who takes what still comes once it was ended.
func TestOneReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		theirs, ours := net.Pipe()
		c := &alone{Conn: ours}
		a := New(Config{Logger: slog.New(slog.DiscardHandler)}).open(c, false)
		f := frame(a, a)
		reader := make(chan error)
		go func() {
			for {
				if _, err := f.Read(make([]byte, 100)); err != nil {
					reader <- err
					return
				}
			}
		}()
		synctest.Wait()
		a.account.dissolve() // it is ended, and nobody has stopped its reader yet
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-reader; !errors.Is(err, errEnded) {
			t.Errorf("the server reads %v", err)
		}
		_, _ = theirs.Write(make([]byte, 100))
		time.Sleep(2 * linger)
		theirs.Close()
		synctest.Wait()
		if most := c.most.Load(); most != 1 {
			t.Errorf("%d read at once", most)
		}
	})
}
