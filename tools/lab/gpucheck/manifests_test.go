package main

import (
	"errors"
	"testing"

	"github.com/weftserve/weft/runtime/modelrepo"
)

// TestModelsForGPUsAreServable: models that are served on GPUs only have manifests without a fault.
func TestModelsForGPUsAreServable(t *testing.T) {
	s := &suite{options: &options{Device: "cuda:0", Out: t.TempDir()}}
	h := &heavy{width: 8, rows: 16}
	to := t.TempDir()
	_, err := s.placeHeavy(to, "heavy", h, 2, 3)
	_, err2 := placeTwins(repository(t, nil), to, s.provider())
	if err := errors.Join(
		err, err2,
		s.placeContest(to, &contest{model: "small", set: graphsSetting, network: []byte("a model")}),
		s.placeContest(to, &contest{model: "large", set: pinSetting, network: []byte("a model")}),
		s.placeShortage(to, beyondLimit),
	); err != nil {
		t.Fatal(err)
	}
	opened, err := modelrepo.Open(to)
	if err != nil {
		t.Fatal(err)
	}
	listing := opened.Scan()
	if err := listing.Err(); err != nil {
		t.Error(err)
	}
	if len(listing.Models) != 9 {
		t.Errorf("%d models, want 9", len(listing.Models))
	}
}
