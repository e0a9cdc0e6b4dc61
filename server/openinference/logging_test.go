package openinference

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/server/transport"
)

// TestLevelChangesAreLogged: anybody who reads the log sees why it says less, or more, from there on.
func TestLevelChangesAreLogged(t *testing.T) {
	var log bytes.Buffer
	level := &slog.LevelVar{}
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level}))
	s := &Service{Calls: &transport.Calls{Logger: logger}, Level: level, Operated: true}
	value := func(on bool) *inference.LogSettingsRequest_SettingValue {
		return &inference.LogSettingsRequest_SettingValue{
			ParameterChoice: &inference.LogSettingsRequest_SettingValue_BoolParam{BoolParam: on},
		}
	}
	for _, c := range []struct {
		on   bool
		says string
	}{{false, "from=INFO to=ERROR"}, {false, ""}, {true, "from=ERROR to=INFO"}, {true, ""}} {
		log.Reset()
		_, err := s.LogSettings(t.Context(), &inference.LogSettingsRequest{
			Settings: map[string]*inference.LogSettingsRequest_SettingValue{"log_info": value(c.on), "log_warning": value(c.on)},
		})
		if err != nil || !strings.Contains(log.String(), c.says) || (log.Len() == 0) != (c.says == "") {
			t.Errorf("%v: %q, %v, want %q", c.on, &log, err, c.says)
		}
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
