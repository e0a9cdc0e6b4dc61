package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/weftapi"
)

// TestStopAnswersWhoeverWaitsForALoad: the end does not wait for the load, and its caller learns why.
func TestStopAnswersWhoeverWaitsForALoad(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 3 seconds")
	}
	repository := t.TempDir()
	weftest.AddVersion(t, repository, "walker", 1)
	weftest.AddVersion(t, repository, "walker", 2)
	weftest.SetManifest(t, repository, "walker",
		`{synth: {base: 500ms, `+tensors+`}, batching: {mode: "off"}, versions: {policy: {specific: [1]}}}`)
	r := serveFrom(t, repository, nil)
	r.awaitReady(t)
	ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
	defer cancel()
	loaded := make(chan error)
	go func() {
		_, err := weftv1.NewAdminServiceClient(r.admin).LoadVersion(ctx,
			&weftv1.LoadVersionRequest{Model: "walker", Version: 2})
		loaded <- err
	}()
	r.until(t, "version 2 is being loaded", func(m *weftv1.Model) bool {
		return len(m.GetVersions()) == 2 && m.GetVersions()[1].GetState() == weftv1.VersionState_VERSION_STATE_LOADING
	})
	r.stop()
	if err := <-loaded; status.Code(err) != codes.Unavailable ||
		!strings.Contains(err.Error(), "the server is draining") {
		t.Errorf("LoadVersion ended with %v, want UNAVAILABLE because the server drains", err)
	}
}

// lateAnswer is residents whose loads end with their context, when they are let.
type lateAnswer struct {
	predict.Models
	weftapi.Residents
	begun, let chan struct{}
}

func (lateAnswer) Snapshot() *catalog.Snapshot { return &catalog.Snapshot{} }

func (l lateAnswer) LoadVersion(ctx context.Context, _ string, _ int64, _ string) error {
	close(l.begun)
	<-ctx.Done()
	<-l.let
	return fmt.Errorf("load it: %w", context.Cause(ctx))
}

// endedListener reports that it was closed.
type endedListener struct {
	net.Listener
	ended chan struct{}
}

func (l endedListener) Close() error {
	defer close(l.ended)
	return l.Listener.Close()
}

// TestStopOfTheAdminServerSendsAnswers that were not on the way yet.
func TestStopOfTheAdminServerSendsAnswers(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	late := lateAnswer{begun: make(chan struct{}), let: make(chan struct{})}
	edge := server.New(server.Config{Logger: log}, late, nil)
	ended := make(chan struct{})
	part := adminPart(endedListener{listener, ended}, server.NewAdmin(edge, late), nil)
	stopped := make(chan error, 2)
	go func() { stopped <- part.Run() }()
	conn, err := weftest.Dial(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answer := make(chan error)
	go func() {
		_, err := weftv1.NewAdminServiceClient(conn).LoadVersion(t.Context(),
			&weftv1.LoadVersionRequest{Model: "walker", Version: 2})
		answer <- err
	}()
	<-late.begun
	if err := edge.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	go func() { stopped <- part.Stop(t.Context()) }()
	<-ended
	close(late.let)
	if err := <-answer; status.Code(err) != codes.Unavailable ||
		!strings.Contains(err.Error(), "load it: the server is draining") {
		t.Errorf("LoadVersion ended with %v, want its own answer", err)
	}
	for range 2 {
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	}
}
