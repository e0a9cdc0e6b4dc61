package server_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/server/servertest/script"
	"github.com/weftserve/weft/server/shadow"
)

// twoPairs is a mirror with one pair of each of two models, whose outputs have all details whether asked for or not.
type twoPairs struct{}

func (twoPairs) Offer(shadow.Offer) {}

func (twoPairs) Summaries(string, shadow.Detail) []shadow.Summary {
	at := time.Unix(1_700_000_000, 0)
	detail := &shadow.Print{
		RowElements: 2, AuditedRows: 7,
		Elements: []shadow.Element{{First: 1, Count: 1, Name: "elbow", Floor: 0.5, Source: shadow.LeastAudited}},
		Slices:   []shadow.Slice{{Start: at, Rows: 9, Errors: []float32{0.25}}},
		Errors:   shadow.Spread{Equal: 1, Below: 2, Above: 3},
		Worst: []shadow.Request{{
			At: at, ID: "r", Absolute: 1, Relative: 0.5, Row: 3, Element: 1, Primary: []float64{1, 2}, Shadow: []float64{1, 3},
		}},
	}
	detail.Errors.Bins[5] = 4
	outputs := []shadow.OutputSummary{{Name: "action", Print: detail}, {Name: "note"}}
	return []shadow.Summary{{Model: "policy", Outputs: outputs}, {Model: "walker", Outputs: outputs}}
}

// TestRowsAreForOperators: anybody who observes a model may see the fingerprints of its shadows, but rows of single
// requests only who may operate it. Without an access file that is who reaches the admin listener.
func TestRowsAreForOperators(t *testing.T) {
	control := servertest.NewControl(t, policyOf([]person{
		{name: "observer", models: "*", has: []string{"observe"}},
		{name: "operator", models: "*", has: []string{"observe", "operate"}},
		{name: "predictor", models: "*", has: []string{"observe", "predict"}},
		{name: "halves", models: "policy", has: []string{"observe", "operate"}},
	}))
	for _, c := range []struct {
		open, admin bool
		who         string
		want        []string // of each summary that is shown
	}{
		{true, false, "", []string{"policy withheld", "walker withheld"}},
		{true, true, "", []string{"policy rows", "walker rows"}},
		{false, false, "observer", []string{"policy withheld", "walker withheld"}},
		{false, true, "observer", []string{"policy withheld", "walker withheld"}},
		{false, false, "predictor", []string{"policy withheld", "walker withheld"}},
		{false, false, "operator", []string{"policy rows", "walker rows"}},
		{false, true, "operator", []string{"policy rows", "walker rows"}},
		{false, true, "halves", []string{"policy rows"}},
	} {
		config := server.Config{Shadows: twoPairs{}}
		if !c.open {
			config.Access = &control.Control
		}
		h := servertest.New(t, config)
		h.Current.Store(twoModels())
		h.ModelsChanged()
		client := h.Catalog
		if c.admin {
			a := server.NewAdmin(h.Server, idle{})
			g := grpc.NewServer(h.AdminOptions(a)...)
			a.Register(g)
			client = weftv1.NewModelServiceClient(servertest.Dial(t, g))
		}
		ctx := t.Context()
		if c.who != "" {
			ctx = as(ctx, c.who)
		}
		var got []string
		answer, err := client.GetShadowSummary(ctx, &weftv1.GetShadowSummaryRequest{Worst: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range answer.GetSummaries() {
			state := "nothing"
			switch rows := len(s.GetOutputs()[0].GetWorst()); {
			case rows == 1 && !s.GetWorstWithheld():
				state = "rows"
			case rows == 0 && s.GetWorstWithheld():
				state = "withheld"
			}
			got = append(got, s.GetModel()+" "+state)
			if s.GetOutputs()[0].GetFingerprint() != nil {
				t.Error("a fingerprint that was not asked for")
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("open %t, admin listener %t, %s: %q, want %q", c.open, c.admin, c.who, got, c.want)
		}
		answer, err = client.GetShadowSummary(ctx, &weftv1.GetShadowSummaryRequest{Fingerprints: true})
		if err != nil {
			t.Fatal(err)
		}
		if s := answer.GetSummaries()[0]; s.GetWorstWithheld() || s.GetOutputs()[0].GetWorst() != nil {
			t.Errorf("%s: rows that were not asked for", c.who)
		}
	}
}

// TestDetailsAreShown as they are.
func TestDetailsAreShown(t *testing.T) {
	h := servertest.New(t, server.Config{Shadows: twoPairs{}})
	a := server.NewAdmin(h.Server, idle{})
	g := grpc.NewServer(h.AdminOptions(a)...)
	a.Register(g)
	answer, err := weftv1.NewModelServiceClient(servertest.Dial(t, g)).GetShadowSummary(t.Context(),
		&weftv1.GetShadowSummaryRequest{Model: "policy", Fingerprints: true, Worst: true})
	if err != nil {
		t.Fatal(err)
	}
	script.Compare(t, "testdata/details.txt", map[string]string{"policy": script.JSON(answer.GetSummaries()[0])})
	for _, kind := range []shadow.FloorSource{shadow.FromAudit, shadow.LeastAudited, shadow.LeastUnaudited} {
		if name := weftv1.FloorSource(kind).String(); name == strconv.Itoa(int(kind)) {
			t.Errorf("floor source %d has no name", kind)
		}
	}
}
