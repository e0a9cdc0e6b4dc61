package weftapi_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/server/servertest/script"
)

func TestGetModelMetadata(t *testing.T) {
	h := servertest.New(t, server.Config{})
	got, err := h.Predictions.GetModelMetadata(t.Context(), &weftv1.GetModelMetadataRequest{
		Model: &weftv1.ModelSpec{Name: "policy", VersionChoice: &weftv1.ModelSpec_Label{Label: "stable"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	script.Compare(t, "testdata/metadata.txt", map[string]string{"policy": script.JSON(got)})
	_, err = h.Predictions.GetModelMetadata(t.Context(), &weftv1.GetModelMetadataRequest{})
	servertest.WantCode(t, err, codes.InvalidArgument, "model.name")
	_, err = h.Predictions.GetModelMetadata(t.Context(), &weftv1.GetModelMetadataRequest{
		Model: &weftv1.ModelSpec{Name: "policy", VersionChoice: &weftv1.ModelSpec_Version{Version: 3}},
	})
	servertest.WantCode(t, err, codes.Unavailable, "loading")
}

func TestModelsAreShown(t *testing.T) {
	h := servertest.New(t, server.Config{})
	s := servertest.PolicySnapshot()
	s.Models = s.Models.With("torn", &catalog.Model{Name: "torn", Cause: "model.yaml \xff"})
	first := s.Model("policy").Versions[0]
	first.LoadedAt = time.Unix(1700000000, 0)
	first.Digest = "a1b2"
	first.Replicas = []catalog.Replica{
		{Device: "cpu", Provider: "cpu", Scheduler: 1},
		{Device: "cuda:0", Provider: "cuda", Scheduler: 9},
	}
	died := time.Unix(1700000001, 0)
	first.Live = func() catalog.Live {
		return catalog.Live{Memory: []int64{-1, 1 << 30}, Restarting: []bool{false, true}, Crashes: catalog.Crashes{
			Deaths: 3, DeathAt: died, Death: "SIGFPE: at /usr/lib/libonnxruntime.so",
			Proven: 2, ProvenAt: died, Proof: "SIGFPE", Remembered: 1,
		}}
	}
	s.Model("policy").Versions[1].Live = func() catalog.Live {
		return catalog.Live{Crashes: catalog.Crashes{Remembered: 4}} // from before it was loaded again
	}
	began := time.Unix(1700000002, 0)
	s.Model("policy").Versions[2].Loading = func() catalog.LoadProgress {
		return catalog.LoadProgress{Stage: catalog.StageProving, Done: 12, Of: 40, Since: began}
	}
	first.Loading = func() catalog.LoadProgress { return catalog.LoadProgress{} } // its changed files wait
	first.Stalled = "its process on cuda:0 died \xff"
	first.Scarce = "2 of 3 replicas \xff"
	h.Current.Store(s)
	list, err := h.Catalog.ListModels(t.Context(), &weftv1.ListModelsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	script.Compare(t, "testdata/models.txt", map[string]string{"policy and torn": script.JSON(list)})
	got, err := h.Catalog.GetModel(t.Context(), &weftv1.GetModelRequest{Name: "policy"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(list.GetModels()[0], got.GetModel(), protocmp.Transform()); diff != "" {
		t.Errorf("GetModel differs from ListModels:\n%s", diff)
	}
	_, err = h.Catalog.GetModel(t.Context(), &weftv1.GetModelRequest{})
	servertest.WantCode(t, err, codes.InvalidArgument, "name: expected the name of a model")
	_, err = h.Catalog.GetModel(t.Context(), &weftv1.GetModelRequest{Name: "nope"})
	servertest.WantCode(t, err, codes.NotFound, `there is "policy", "torn"`)
}
