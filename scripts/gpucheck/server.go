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
	"sync"
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

// server is a Weft server in a process of its own, on free ports. It must be stopped.
type server struct {
	dir   string // with its log
	conns []*grpc.ClientConn
	http  string // HOST:PORT

	cmd    *exec.Cmd
	log    *os.File
	reader sync.WaitGroup // of its log
	stop   func() error   // once; the same error each time
}

// announcement is a line of the server's log.
type announcement struct {
	Event string `json:"event"`
	GRPC  string `json:"grpc"`
	HTTP  string `json:"http"`
}

// serve starts a server of a repository, with its log in dir, and waits until it is ready.
func (s *suite) serve(ctx context.Context, dir, repository string, flags ...string) (*server, error) {
	args := append([]string{
		"serve", repository, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--admin-listen", "", "--state-dir",
		"none", "--watch-interval", "0s",
		"--devices", s.devices(), "--onnxruntime-lib", s.ONNXRuntimeLib, "--log-format", "json",
		"--max-message-bytes", strconv.Itoa(maxMessage),
	}, flags...)
	v := &server{dir: dir, cmd: exec.CommandContext(ctx, s.Weft, args...)}
	v.cmd.Cancel = func() error { return v.cmd.Process.Signal(syscall.SIGTERM) }
	v.cmd.WaitDelay = stopTime
	var err error
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if v.log, err = os.Create(filepath.Join(dir, "server.log")); err != nil {
		return nil, err
	}
	output, err := v.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := v.cmd.Start(); err != nil {
		return nil, err
	}
	ready := make(chan announcement, 1)
	v.reader.Go(func() { v.follow(output, ready) })
	v.stop = sync.OnceValue(v.end)

	patience := time.NewTimer(loadTime)
	defer patience.Stop()
	select {
	case said, is := <-ready:
		if !is {
			return nil, errors.Join(fmt.Errorf("the server ended before it was ready: see %s", v.log.Name()), v.stop())
		}
		v.http = said.HTTP
		for range connections {
			conn, err := grpc.NewClient(said.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
			if err != nil {
				return nil, errors.Join(err, v.stop())
			}
			v.conns = append(v.conns, conn)
		}
		return v, nil
	case <-patience.C:
		return nil, errors.Join(fmt.Errorf("the server was not ready within %v: see %s", loadTime, v.log.Name()),
			v.stop())
	}
}

// devices returns the devices that the server may use: the CPU too, for the device is compared with its answers.
func (s *suite) devices() string {
	if s.onGPU() {
		return s.Device + "," + cpu
	}
	return cpu
}

// follow copies the server's log until its end, and sends the addresses when it is ready. It closes ready.
func (v *server) follow(output io.Reader, ready chan<- announcement) {
	defer close(ready)
	var all announcement
	lines := bufio.NewReader(output)
	for {
		line, err := lines.ReadBytes('\n')
		_, _ = v.log.Write(line) // a full disk shows in the report, which is written last
		var one announcement
		if json.Unmarshal(line, &one) == nil {
			if one.HTTP != "" {
				all.HTTP = one.HTTP
			}
			if one.Event == "ready" {
				all.GRPC = one.GRPC
				ready <- all
			}
		}
		if err != nil {
			return
		}
	}
}

// end stops the server. The error says how it ended, if not orderly.
func (v *server) end() error {
	for _, conn := range v.conns {
		_ = conn.Close() // fails only if it was closed before
	}
	_ = v.cmd.Process.Signal(syscall.SIGTERM) // fails if it has ended, which Wait reports
	kill := time.AfterFunc(stopTime, func() { _ = v.cmd.Process.Kill() })
	defer kill.Stop()
	v.reader.Wait()
	err := v.cmd.Wait()
	if err != nil {
		err = fmt.Errorf("the server ended with %w: see %s", err, v.log.Name())
	}
	return errors.Join(err, v.log.Close())
}

func (v *server) predictions() weftv1.PredictionServiceClient {
	return weftv1.NewPredictionServiceClient(v.conns[0])
}

func (v *server) models() weftv1.ModelServiceClient { return weftv1.NewModelServiceClient(v.conns[0]) }

// state returns the state that the scheduler reports.
func (v *server) state(ctx context.Context) (*weftv1.SchedulerState, error) {
	answer, err := v.models().GetSchedulerState(ctx, &weftv1.GetSchedulerStateRequest{})
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
