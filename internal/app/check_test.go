package app

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestBuild(t *testing.T) {
	commit := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{
			{Key: "vcs", Value: "git"},
			{Key: "vcs.revision", Value: "c0ffee"},
			{Key: "vcs.time", Value: "2026-01-02T03:04:05Z"},
			{Key: "vcs.modified", Value: modified},
		}
	}
	for _, tt := range []struct {
		version  string
		settings []debug.BuildSetting
		want     string // the line's beginning
		modified bool
	}{
		{"v1.2.3", nil, "weft v1.2.3, " + runtime.Version(), false},
		{"", nil, "weft unknown, " + runtime.Version(), false},
		{"v1.2.3", commit("false"), "weft v1.2.3, commit c0ffee of 2026-01-02T03:04:05Z, " + runtime.Version(), false},
		{"v1", commit("true"), "weft v1, commit c0ffee of 2026-01-02T03:04:05Z with changes, " + runtime.Version(), true},
	} {
		got := buildOf(&debug.BuildInfo{Main: debug.Module{Version: tt.version}, Settings: tt.settings})
		if !strings.HasPrefix(got.String(), tt.want) || got.Modified != tt.modified {
			t.Errorf("build %+v, %q; want %q...", got, got, tt.want)
		}
	}
}
