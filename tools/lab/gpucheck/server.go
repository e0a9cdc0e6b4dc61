package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

const (
	// how long a server may take to become ready: seconds, unless libraries compile for a GPU that they do not know
	loadTime = 2 * time.Minute
	stopTime = 30 * time.Second
	// connections, so that one of them does not bound the load.
	connections = 4
	// maxMessage is ample for the requests here.
	maxMessage = 64 << 20
)

// server is a Weft server in a process of its own, on free ports.
type server struct {
	dir   string // with its log
	conns []*grpc.ClientConn
	http  string // HOST:PORT
	admin string // the same, of AdminService
	lost  bool   // a row says already that it failed
}

// serve starts a server of a repository, with its log in the folder of that name, does something with it when it is
// ready, and stops it. The error also says how the server ended, if not orderly.
func (s *suite) serve(ctx context.Context, folder, repository string, do func(*server) error, flags ...string,
) (err error) {
	v := &server{dir: s.folder(folder)}
	if err := os.MkdirAll(v.dir, 0o755); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(v.dir, "server.log"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	devices := cpu
	if s.onGPU() {
		devices = s.Device + "," + cpu // whose answers the device's are compared with
	}
	cmd := exec.CommandContext(ctx, s.Weft, append([]string{
		"serve", repository, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
		"--state-dir", "none", "--watch-interval", "0s",
		"--devices", devices, "--onnxruntime-lib", s.ONNXRuntimeLib, "--log-format", "json",
		"--max-message-bytes", strconv.Itoa(maxMessage),
	}, flags...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTime
	output, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	ready, read := make(chan announcement, 1), make(chan struct{})
	go func() {
		defer close(read)
		follow(output, log, ready)
	}()
	defer func() {
		for _, conn := range v.conns {
			_ = conn.Close() // fails only if it was closed before
		}
		_ = cmd.Process.Signal(syscall.SIGTERM) // fails if it has ended, which Wait reports
		kill := time.AfterFunc(stopTime, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		<-read
		if ended := cmd.Wait(); ended != nil && !v.lost {
			err = errors.Join(err, fmt.Errorf("the server ended with %w: see %s", ended, log.Name()))
		}
	}()

	select {
	case said, is := <-ready:
		if !is {
			return fmt.Errorf("the server ended before it was ready: see %s", log.Name())
		}
		v.http, v.admin = said.HTTP, said.Admin
		for range connections {
			conn, err := grpc.NewClient(said.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
			if err != nil {
				return err
			}
			v.conns = append(v.conns, conn)
		}
		v.awaitProofs(ctx)
		return do(v)
	case <-time.After(loadTime):
		return fmt.Errorf("the server was not ready within %v: see %s", loadTime, log.Name())
	}
}

// awaitProofs waits for the versions that are still loaded: a server is ready without those whose proof is slow.
// What keeps it from an answer is for the checks to find.
func (v *server) awaitProofs(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	again := time.NewTicker(100 * time.Millisecond) // nothing tells but asking
	defer again.Stop()
	for {
		all, err := weftv1.NewModelServiceClient(v.conns[0]).ListModels(ctx, &weftv1.ListModelsRequest{})
		if err != nil || !slices.ContainsFunc(all.GetModels(), func(m *weftv1.Model) bool {
			return slices.ContainsFunc(m.GetVersions(), func(v *weftv1.ModelVersion) bool {
				return v.GetState() == weftv1.VersionState_VERSION_STATE_LOADING
			})
		}) {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// announcement holds what lines of the server's log say of it.
type announcement struct{ Event, GRPC, HTTP, Admin string }

// follow copies the server's log until its end, and sends the addresses when it is ready. It closes ready.
func follow(output io.Reader, log io.Writer, ready chan<- announcement) {
	defer close(ready)
	var said announcement
	var err error
	for lines := bufio.NewReader(output); err == nil; {
		var line []byte
		line, err = lines.ReadBytes('\n')
		_, _ = log.Write(line) // a full disk shows in the report, which is written last
		said.Event = ""
		if json.Unmarshal(line, &said) == nil && said.Event == "ready" {
			ready <- said
		}
	}
}

func (v *server) predictions() weftv1.PredictionServiceClient {
	return weftv1.NewPredictionServiceClient(v.conns[0])
}

// state returns the state that the scheduler reports.
func (v *server) state(ctx context.Context) (*weftv1.SchedulerState, error) {
	answer, err := weftv1.NewModelServiceClient(v.conns[0]).GetSchedulerState(ctx, &weftv1.GetSchedulerStateRequest{})
	return answer.GetState(), err
}

// isGone reports whether the server does not answer, or has lost a device.
func (v *server) isGone(ctx context.Context, device string) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	state, err := v.state(ctx)
	return err != nil || slices.ContainsFunc(state.GetDevices(), func(d *weftv1.SchedulerDevice) bool {
		return d.GetName() == device && d.GetLost() != ""
	})
}
