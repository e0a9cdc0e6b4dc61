package config_test

import (
	"fmt"
	"testing"

	"github.com/weftserve/weft/internal/config"
)

func TestDifferences(t *testing.T) {
	before, now := config.DefaultServer(), config.DefaultServer()
	if d := before.Differences(&now); len(d) != 0 {
		t.Errorf("two that are alike differ: %v", d)
	}
	now.Devices, now.DrainTimeout, now.HTTP, now.RecordSample = []string{"cuda", "cpu"}, 0, "", 0.5
	const want = "[http: , was 127.0.0.1:9001 devices: [cuda cpu], was [cpu] drain-timeout: 0s, was 30s " +
		"record-sample: 0.5, was 1]"
	if got := fmt.Sprint(before.Differences(&now)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
