package weftapi_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
)

// TestTrafficThereAndBack: the traffic given to SetTraffic reaches the models, and GetTraffic returns the same.
func TestTrafficThereAndBack(t *testing.T) {
	h := servertest.New(t, server.Config{})
	admin := server.NewAdmin(h.Server, &residents{house: h})
	wanted := &weftv1.Traffic{
		Split: []*weftv1.TrafficSlot{{Slot: "a", Version: 1, Weight: 3}, {Slot: "b", Version: 2, Weight: 1}},
		Shadow: []*weftv1.TrafficShadow{
			{Version: 2, Sample: 0.5, Tolerance: 0.25, Tolerances: map[string]float64{"action": 0.125, "value": 0}},
			{Version: 1, Sample: 1, Unit: weftv1.ShadowUnit_SHADOW_UNIT_REQUEST},
			{Version: 3, Sample: 1, Tolerances: map[string]float64{"nothing is known of it yet": 1}},
		},
	}
	if _, err := admin.SetTraffic(t.Context(),
		&weftv1.SetTrafficRequest{Model: "policy", Traffic: wanted}); err != nil {
		t.Fatal(err)
	}
	want := []catalog.Shadow{
		{Version: 2, Sample: 0.5, Tolerance: 0.25, Tolerances: map[string]float64{"action": 0.125, "value": 0}},
		{Version: 1, Sample: 1, PerRequest: true},
		{Version: 3, Sample: 1, Tolerances: map[string]float64{"nothing is known of it yet": 1}},
	}
	if diff := cmp.Diff(want, h.Snapshot().Model("policy").Traffic.Shadow); diff != "" {
		t.Errorf("the models were told (-want +got)\n%s", diff)
	}
	got, err := h.Catalog.GetTraffic(t.Context(), &weftv1.GetTrafficRequest{Model: "policy"})
	if err != nil {
		t.Fatal(err)
	}
	wanted.Revision, wanted.Source = 9, "SetTraffic"
	wanted.Shadow[0].Unit, wanted.Shadow[2].Unit = weftv1.ShadowUnit_SHADOW_UNIT_EPISODE,
		weftv1.ShadowUnit_SHADOW_UNIT_EPISODE
	if diff := cmp.Diff(wanted, got.GetTraffic(), protocmp.Transform()); diff != "" {
		t.Errorf("GetTraffic (-want +got)\n%s", diff)
	}
}

// TestTrafficThatWaits: GetTraffic names the versions that the manifest's traffic waits for.
func TestTrafficThatWaits(t *testing.T) {
	h := servertest.New(t, server.Config{})
	m := *h.Snapshot().Model("policy")
	m.TrafficWaitsFor = []int64{7, 9}
	h.Current.Store(servertest.SnapshotOf(2, &m))
	got, err := h.Catalog.GetTraffic(t.Context(), &weftv1.GetTrafficRequest{Model: "policy"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int64{7, 9}, got.GetWaitsFor()); diff != "" {
		t.Errorf("waits for (-want +got)\n%s", diff)
	}
}

// TestImpossibleTraffic is refused before the models are asked.
func TestImpossibleTraffic(t *testing.T) {
	h := servertest.New(t, server.Config{})
	admin := server.NewAdmin(h.Server, &residents{house: h})
	for name, c := range map[string]struct {
		shadow             *weftv1.TrafficShadow
		field, description string
	}{
		"unknown unit": {
			&weftv1.TrafficShadow{Version: 2, Sample: 1, Unit: 7}, "traffic.shadow[0].unit",
			"expected SHADOW_UNIT_EPISODE or SHADOW_UNIT_REQUEST, got 7",
		},
		"tolerance of no output": {
			&weftv1.TrafficShadow{Version: 2, Sample: 1, Tolerances: map[string]float64{"action": 1, "actoin": 1}},
			"traffic.shadow[0].tolerances",
			`expected floating point outputs of version 2 ("action", "value"), got "actoin"`,
		},
	} {
		_, err := admin.SetTraffic(t.Context(),
			&weftv1.SetTrafficRequest{
				Model:   "policy",
				Traffic: &weftv1.Traffic{Shadow: []*weftv1.TrafficShadow{c.shadow}},
			})
		field, description := violation(err)
		if status.Code(err) != codes.InvalidArgument || field != c.field || description != c.description {
			t.Errorf("%s: %v\nfield %q, %q", name, err, field, description)
		}
		if got := h.Snapshot().Model("policy").Traffic; got != nil {
			t.Errorf("%s: the models were told %+v", name, got)
		}
	}
}

// violation returns the field that an error is about, and its description.
func violation(err error) (field, description string) {
	for _, detail := range status.Convert(err).Details() {
		if bad, is := detail.(*errdetails.BadRequest); is {
			return bad.GetFieldViolations()[0].GetField(), bad.GetFieldViolations()[0].GetDescription()
		}
	}
	return "", ""
}

// TestGetRollout: a model that has none has no rollout; one that is not there is said so.
func TestGetRollout(t *testing.T) {
	h := servertest.New(t, server.Config{})
	got, err := h.Catalog.GetRollout(t.Context(), &weftv1.GetRolloutRequest{Model: "policy"})
	if err != nil || got.GetRollout() != nil {
		t.Errorf("%v, %v", got, err)
	}
	_, err = h.Catalog.GetRollout(t.Context(), &weftv1.GetRolloutRequest{Model: "polcy"})
	servertest.WantCode(t, err, codes.NotFound, `there is "policy"`)
}
