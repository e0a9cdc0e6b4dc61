package protect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"

	"github.com/weftserve/weft/internal/weftest"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l = quiet(0).Listen(l, time.Minute)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// sockets returns the two ends of a connection; a server has the second one.
func sockets(t *testing.T) (near net.Conn, far *conn) {
	t.Helper()
	near, all := accept(t)
	far, _ = within[*conn](all)
	return near, far
}

// accept returns the two ends of a connection that has an account.
func accept(t *testing.T) (near, far net.Conn) {
	t.Helper()
	l := listen(t)
	near, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	return near, far
}

// awaken makes the kernel note times until the end of the test: it begins some time after it was asked to.
func awaken(t *testing.T) {
	t.Helper()
	near, far := sockets(t)
	weftest.Until(t, "the kernel notes when bytes come", func() bool {
		if _, err := near.Write([]byte("b")); err != nil {
			t.Fatal(err)
		}
		if _, err := far.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		return far.came.Load() != 0
	})
}

// TestWaited: bytes that lie in the kernel for a while have waited for as long.
func TestWaited(t *testing.T) {
	awaken(t)
	near, far := accept(t)
	ctx := ConnContext(t.Context(), far)
	if w := Waited(ctx, time.Now()); w != 0 {
		t.Errorf("before anything came: %v", w)
	}
	for _, lies := range []time.Duration{30 * time.Millisecond, 0} {
		before := time.Now()
		if _, err := near.Write([]byte("bytes")); err != nil {
			t.Fatal(err)
		}
		after := time.Now()
		<-time.After(lies)
		if _, err := io.ReadFull(far, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		const clocks = time.Millisecond // monotonic and wall time are not read at once
		if w := Waited(ctx, now); w < now.Sub(after)-clocks || w > now.Sub(before)+clocks {
			t.Errorf("waited for %v, of %v to %v", w, now.Sub(after), now.Sub(before))
		}
		if late := Late(Header(ctx, now)); late < lies-clocks || late != 0 && late != Waited(ctx, now) {
			t.Errorf("the deadline is late by %v, the bytes lay for %v", late, lies)
		}
		if later := now.Add(longestWait); Waited(ctx, later) != 0 || Waited(ctx, now.Add(-time.Hour)) != 0 {
			t.Error("the clock was set, and calls are late by that")
		}
	}
	for _, ctx := range []context.Context{
		t.Context(), peer.NewContext(t.Context(), &peer.Peer{Addr: near.RemoteAddr()}),
	} {
		if Late(Header(ctx, time.Now())) != 0 || Waited(ctx, time.Now()) != 0 {
			t.Error("something is known of a call whose connection is another's")
		}
	}
}

// TestReads: whatever comes, in whatever pieces, is read as it was sent, by either method, to the end.
func TestReads(t *testing.T) {
	near, far := sockets(t)
	random := rand.New(rand.NewPCG(1, 2))
	sent := make([]byte, 1<<20)
	for i := range sent {
		sent[i] = byte(random.Uint32())
	}
	go func() {
		for rest := sent; len(rest) > 0; {
			n := min(len(rest), 1+random.IntN(1<<15))
			if _, err := near.Write(rest[:n]); err != nil {
				t.Error(err)
				return
			}
			rest = rest[n:]
		}
		_ = near.Close()
	}()
	var came []byte
	for i := 0; ; i++ {
		var err error
		if i%2 == 0 {
			part := make([]byte, 1+i*37%5000)
			var n int
			n, err = far.Read(part)
			came = append(came, part[:n]...)
		} else {
			part, n, fault := far.ReadOnReady(1+i*91%5000, mem.DefaultBufferPool())
			if err = fault; n > 0 {
				came = append(came, (*part)[:n]...)
			} else if part != nil {
				t.Error("memory came with no bytes in it")
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(came, sent) {
		t.Errorf("%d bytes came that are not the %d that were sent", len(came), len(sent))
	}
	if n, err := far.Read(nil); n != 0 || err != nil {
		t.Errorf("to read nothing: %d bytes, %v", n, err)
	}
}

// TestReadsThatFail do so with the errors that connections have.
func TestReadsThatFail(t *testing.T) {
	near, far := sockets(t)
	if err := far.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := far.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("its time is over: %v", err)
	}
	part, _, err := far.ReadOnReady(1, mem.DefaultBufferPool())
	if part != nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("its time is over: %v", err)
	}
	if err := far.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	_ = near.(*net.TCPConn).SetLinger(0) // a reset, and no end
	_ = near.Close()
	var fault *net.OpError
	if _, err := far.Read(make([]byte, 1)); !errors.As(err, &fault) {
		t.Errorf("the other end has reset: %v", err)
	}
	_ = far.Close()
	if _, err := far.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("it is closed: %v", err)
	}
}

// TestGRPC: a call whose header lies unread for a while is late by that, whether or not it has to be decrypted.
func TestGRPC(t *testing.T) {
	t.Run("in the clear", func(t *testing.T) {
		callsThatLie(t, insecure.NewCredentials(), insecure.NewCredentials())
	})
	t.Run("TLS", func(t *testing.T) {
		ca := weftest.NewAuthority(t, "test")
		pair, err := tls.X509KeyPair(ca.Issue(t, nil))
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AddCert(ca.Cert)
		callsThatLie(t, credentials.NewServerTLSFromCert(&pair), credentials.NewClientTLSFromCert(roots, ""))
	})
}

func callsThatLie(t *testing.T, server, client credentials.TransportCredentials) {
	t.Helper()
	const lies = 50 * time.Millisecond
	awaken(t)
	l := listen(t)
	reading, lates := make(chan struct{}), make(chan time.Duration, 2)
	second := true
	secured := quiet(0).Credentials(server, nil)
	g := grpc.NewServer(grpc.Creds(secured), grpc.InTapHandle(func(ctx context.Context, _ *tap.Info,
	) (context.Context, error) {
		lates <- Late(Header(ctx, time.Now()))
		if second = !second; !second { // nothing else is read from the connection meanwhile
			reading <- struct{}{}
			<-time.After(2 * lies)
		}
		return ctx, nil
	}))
	healthgrpc.RegisterHealthServer(g, health.NewServer())
	ended := make(chan error)
	go func() { ended <- g.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(client))
	if err != nil {
		t.Fatal(err)
	}
	asks := healthgrpc.NewHealthClient(conn)
	check := func() error {
		_, err := asks.Check(t.Context(), &healthgrpc.HealthCheckRequest{})
		return err
	}
	weftest.Until(t, "of two calls the second lies unread while the first is held up", func() bool {
		first := make(chan error)
		go func() { first <- check() }()
		<-reading
		before := time.Now()
		if err := errors.Join(check(), <-first); err != nil {
			t.Fatal(err)
		}
		lasted := time.Since(before)
		<-lates
		late := <-lates
		if late > lasted+time.Millisecond {
			t.Errorf("a call that lasted for %v was late by %v", lasted, late)
		}
		return late >= lies // less where the second was sent late, by a machine that is busy
	})
	_ = conn.Close()
	g.Stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
