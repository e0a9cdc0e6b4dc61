package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// TestRun plays short episodes against a real server. How fast it answers is left open.
func TestRun(t *testing.T) {
	var out bytes.Buffer
	args := []string{"--addr", serve(t), "--hz", "200", "--episodes", "6", "--steps", "5", "--versions", "3,2,1"}
	if err := run(t.Context(), args, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) < 5 {
		t.Fatalf("report has %d lines:\n%s", len(lines), out.String())
	}
	for i, version := range []string{"1", "2", "3"} {
		columns := strings.Fields(lines[2+i])
		// Five steps from the start cannot fail, so each version has two episodes of five calls.
		if diff := cmp.Diff([]string{version, "2", "10"}, []string{columns[0], columns[1], columns[4]}); diff != "" {
			t.Errorf("version, episodes, calls (-want +got):\n%s\n%s", diff, out.String())
		}
	}
}

// busy has a rollout of another client.
type busy struct {
	weftv1.UnimplementedAdminServiceServer
}

func (busy) StartRollout(context.Context, *weftv1.StartRolloutRequest) (*weftv1.StartRolloutResponse, error) {
	return nil, status.Error(codes.FailedPrecondition, "a rollout is running")
}

// TestRolloutOfAnEarlierRun: the error says how to end it.
func TestRolloutOfAnEarlierRun(t *testing.T) {
	server := grpc.NewServer()
	weftv1.RegisterAdminServiceServer(server, busy{})
	admin := weftest.Serve(t, server)
	err := run(t.Context(), []string{"--addr", serve(t), "--admin", admin, "--rollout", "2:3"}, io.Discard, io.Discard)
	want := "start the rollout at --admin " + admin + ": a rollout is running; `weft rollout abort cartpole` ends one that " +
		"is running"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestOptions(t *testing.T) {
	o, err := parse([]string{"--versions", "1, stable", "--hz", "100"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]version{"1", "stable"}, o.versions); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
	if o.deadline != o.period() || o.period().Milliseconds() != 10 || o.machine != "cartpole" {
		t.Errorf("deadline %v, period %v, machine %q; want 10ms, 10ms, cartpole", o.deadline, o.period(), o.machine)
	}
	if spec := o.versions[0].spec("m"); spec.GetVersion() != 1 {
		t.Errorf("spec %v, want version 1", spec)
	}
	if spec := o.versions[1].spec("m"); spec.GetLabel() != "stable" {
		t.Errorf("spec %v, want label stable", spec)
	}
	if spec := version("").spec("m"); spec.VersionChoice != nil {
		t.Errorf("spec %v, want the server's choice", spec)
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	for _, args := range []string{
		"cartpole", "--hz 0", "--hz NaN", "--hz 1e12", "--episodes 1 --versions 1,2", "--episodes 0", "--steps -1",
		"--checkpoint -1", "--duration -1s", "--deadline 30ms", "--deadline -1ms", "--versions 1,,2", "--nonsense",
	} {
		_, err := parse(strings.Fields(args), io.Discard)
		if err == nil {
			t.Errorf("%s: accepted", args)
			continue
		}
		if name := strings.Fields(args)[0]; !strings.Contains(err.Error(), strings.TrimLeft(name, "-")) {
			t.Errorf("%s: error %q does not name the flag", args, err)
		}
	}
}

func TestHelp(t *testing.T) {
	var help bytes.Buffer
	if err := run(t.Context(), []string{"--help"}, io.Discard, &help); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("error %v, want flag.ErrHelp", err)
	}
	if !strings.Contains(help.String(), "-lockstep") {
		t.Errorf("help does not list the flags:\n%s", help.String())
	}
}
