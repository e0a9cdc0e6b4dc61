package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/tools/lab/harness"
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
	*harness.Server

	dir   string // with its log
	conns []*grpc.ClientConn
	lost  bool // a row says already that it failed
}

// serve starts a server of a repository, with its log in the folder of that name, does something with it when it is
// ready, and stops it. The error also says how the server ended, if not orderly.
func (s *suite) serve(ctx context.Context, folder, repository string, do func(*server) error, flags ...string,
) (err error) {
	v := &server{dir: s.folder(folder)}
	devices := cpu
	if s.onGPU() {
		devices = s.Device + "," + cpu // whose answers the device's are compared with
	}
	if err := harness.Write(filepath.Join(v.dir, logName), nil); err != nil {
		return err
	}
	v.Server, err = harness.Start(ctx, harness.Options{
		Program: s.Weft, Log: filepath.Join(v.dir, logName), Load: loadTime, Stop: stopTime,
		Args: harness.Serve(repository, append([]string{
			"--watch-interval=0s", "--devices=" + devices, "--onnxruntime-lib=" + s.ONNXRuntimeLib,
			fmt.Sprint("--max-message-bytes=", maxMessage),
		}, flags...)...),
	})
	if err != nil {
		return err
	}
	defer func() {
		for _, conn := range v.conns {
			_ = conn.Close() // fails only if it was closed before
		}
		if ended := v.Stop(); !v.lost {
			err = errors.Join(err, ended)
		}
	}()
	for range connections {
		conn, err := grpc.NewClient(v.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
		if err != nil {
			return err
		}
		v.conns = append(v.conns, conn)
	}
	v.awaitProofs(ctx)
	return do(v)
}

const logName = "server.log"

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

// metrics reads the metrics, and keeps the page next to the log.
func (v *server) metrics(ctx context.Context) (harness.Metrics, error) {
	text, err := v.Get(ctx, "/metrics")
	if err := errors.Join(err, harness.Write(filepath.Join(v.dir, "metrics.txt"), text)); err != nil {
		return nil, err
	}
	return harness.ParseMetrics(text)
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
