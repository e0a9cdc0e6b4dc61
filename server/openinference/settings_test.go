package openinference_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/servertest"
)

// logSettings are some as a call has them.
func logSettings(values map[string]any) *inference.LogSettingsRequest {
	q := &inference.LogSettingsRequest{Settings: map[string]*inference.LogSettingsRequest_SettingValue{}}
	for key, value := range values {
		to := &inference.LogSettingsRequest_SettingValue{}
		switch v := value.(type) {
		case bool:
			to.ParameterChoice = &inference.LogSettingsRequest_SettingValue_BoolParam{BoolParam: v}
		case int:
			to.ParameterChoice = &inference.LogSettingsRequest_SettingValue_Uint32Param{Uint32Param: uint32(v)}
		case string:
			to.ParameterChoice = &inference.LogSettingsRequest_SettingValue_StringParam{StringParam: v}
		}
		q.Settings[key] = to
	}
	return q
}

// said is an answer in few words.
func said(m *inference.LogSettingsResponse) string {
	all := m.GetSettings()
	return fmt.Sprintf("%v %v %v %v %q %q",
		all["log_error"].GetBoolParam(), all["log_warning"].GetBoolParam(), all["log_info"].GetBoolParam(),
		all["log_verbose_level"].GetUint32Param(), all["log_file"].GetStringParam(), all["log_format"].GetStringParam())
}

// TestLogSettings: they show the level of the log, and change it on the admin listener, as far as it has what is asked.
func TestLogSettings(t *testing.T) {
	level := &slog.LevelVar{}
	h := servertest.New(t, server.Config{Level: level})
	client, admin := clientOf(h), adminOf(t, h)
	for at, want := range map[slog.Level]string{
		slog.LevelDebug: `true true true 1 "" "default"`, slog.LevelInfo: `true true true 0 "" "default"`,
		slog.LevelWarn: `true true false 0 "" "default"`, slog.LevelError: `true false false 0 "" "default"`,
	} {
		level.Set(at)
		got, err := client.LogSettings(t.Context(), &inference.LogSettingsRequest{})
		if err != nil || said(got) != want {
			t.Errorf("at %v: %s, %v, want %s", at, said(got), err, want)
		}
	}
	level.Set(slog.LevelInfo)
	_, err := client.LogSettings(t.Context(), logSettings(map[string]any{"log_verbose_level": 1}))
	servertest.WantCode(t, err, codes.PermissionDenied, "--admin-listen")
	for _, c := range []struct {
		from slog.Level
		set  map[string]any
		to   slog.Level
	}{
		{slog.LevelInfo, map[string]any{"log_verbose_level": 3}, slog.LevelDebug},
		{slog.LevelDebug, map[string]any{"log_verbose_level": 0}, slog.LevelInfo},
		{slog.LevelInfo, map[string]any{"log_info": false}, slog.LevelWarn},
		{slog.LevelInfo, map[string]any{"log_info": false, "log_warning": false}, slog.LevelError},
		{slog.LevelDebug, map[string]any{"log_info": false, "log_warning": false, "log_verbose_level": 0}, slog.LevelError},
		{slog.LevelError, map[string]any{"log_warning": true}, slog.LevelWarn},
		{slog.LevelError, map[string]any{"log_warning": true, "log_info": true, "log_verbose_level": 1}, slog.LevelDebug},
		{slog.LevelWarn, map[string]any{"log_error": true, "log_file": "", "log_format": "default"}, slog.LevelWarn},
	} {
		level.Set(c.from)
		got, err := admin.LogSettings(t.Context(), logSettings(c.set))
		now, _ := client.LogSettings(t.Context(), &inference.LogSettingsRequest{})
		if err != nil || level.Level() != c.to || said(got) != said(now) {
			t.Errorf("%v from %v: %v, %s, %v, want %v", c.set, c.from, level, said(got), err, c.to)
		}
	}
	level.Set(slog.LevelInfo)
	for _, c := range []struct {
		set  map[string]any
		code codes.Code
		says string
	}{
		{map[string]any{"log_file": "/tmp/x"}, codes.Unimplemented, "settings.log_file: this server does not"},
		{map[string]any{"log_format": "ISO8601"}, codes.Unimplemented, "--log-format"},
		{map[string]any{"log_error": false}, codes.InvalidArgument, `settings["log_error"]: expected true`},
		{map[string]any{"log_warning": false}, codes.InvalidArgument, "settings: expected each kind of records with"},
		{map[string]any{"log_info": false, "log_verbose_level": 1}, codes.InvalidArgument, "settings: expected"},
		{map[string]any{"log_info": 1}, codes.InvalidArgument, `settings["log_info"]: expected a bool, got 1`},
		{map[string]any{"log_verbose_level": true}, codes.InvalidArgument, `settings["log_verbose_level"]: expected a number`},
		{map[string]any{"log_info": nil}, codes.InvalidArgument, "got nothing"},
		{map[string]any{"log_x": "y"}, codes.InvalidArgument, `settings["log_x"]: expected log_info, log_warning`},
		{map[string]any{"log_verbose_level": 1, "log_x": true}, codes.InvalidArgument, "log_x"},
	} {
		_, err := admin.LogSettings(t.Context(), logSettings(c.set))
		servertest.WantCode(t, err, c.code, c.says)
		if level.Level() != slog.LevelInfo {
			t.Fatalf("%v changed the level to %v", c.set, level)
		}
	}
}

// TestTraceSetting: there are none of Triton's traces, and the error says what there is.
func TestTraceSetting(t *testing.T) {
	h := servertest.New(t, server.Config{})
	for _, model := range []string{"", "policy"} {
		got, err := clientOf(h).TraceSetting(t.Context(), &inference.TraceSettingRequest{ModelName: model})
		if level := got.GetSettings()["trace_level"].GetValue(); err != nil || fmt.Sprint(level) != "[OFF]" {
			t.Errorf("%q: %v, %v", model, got, err)
		}
	}
	_, err := clientOf(h).TraceSetting(t.Context(), &inference.TraceSettingRequest{ModelName: "x"})
	servertest.WantCode(t, err, codes.NotFound, `no model is named "x"`)
	_, err = adminOf(t, h).TraceSetting(t.Context(), &inference.TraceSettingRequest{
		Settings: map[string]*inference.TraceSettingRequest_SettingValue{"trace_level": {Value: []string{"TIMESTAMPS"}}},
	})
	servertest.WantCode(t, err, codes.Unimplemented, "GetSchedulerState")
}

// TestWebSettings: the same over HTTP.
func TestWebSettings(t *testing.T) {
	c := policyOf(map[string]access.Role{"robot": {Operate: []string{"*"}}, "watcher": {Observe: []string{"*"}}})
	control := servertest.NewControl(t, c)
	level := &slog.LevelVar{}
	h := servertest.New(t, server.Config{Access: &control.Control, Level: level})
	ask := func(method, path, body, want string) {
		t.Helper()
		got, _ := web(t, h, method, path, body, "Authorization: Bearer "+servertest.Token("robot"))
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s %s %s: %s\nwant %s", method, path, body, got, want)
		}
	}
	const log = `200 {"log_error":true,"log_file":"","log_format":"default","log_info":true,"log_verbose_level":%d,"log_warning":true}`
	ask("GET", "/v2/logging", "", fmt.Sprintf(log, 0))
	ask("POST", "/v2/logging", `{"log_verbose_level": 1}`, fmt.Sprintf(log, 1))
	if level.Level() != slog.LevelDebug {
		t.Errorf("the level is %v", level)
	}
	ask("POST", "/v2/logging", "", fmt.Sprintf(log, 1))
	for body, want := range map[string]string{
		`{"log_info": null}`: "400 {", `{"log_info": {}}`: "400 {", "[]": "400 {", `{"log_verbose_level": -1}`: "400 {",
		`{"log_verbose_level": 1.5}`: "400 {", `{"log_file": "x"}`: "501 {",
	} {
		ask("POST", "/v2/logging", body, want)
	}
	trace := map[string]any{}
	for _, path := range []string{"/v2/trace/setting", "/v2/models/policy/trace/setting"} {
		got, _ := web(t, h, "GET", path, "", "Authorization: Bearer "+servertest.Token("robot"))
		_, text, _ := strings.Cut(got, " ")
		if err := json.Unmarshal([]byte(text), &trace); err != nil || fmt.Sprint(trace["trace_level"]) != "[OFF]" ||
			trace["trace_file"] != "" {
			t.Errorf("%s: %s, %v", path, got, err)
		}
		ask("POST", path, `{"trace_level": ["TIMESTAMPS"]}`, "501 {")
	}
	ask("GET", "/v2/models/x/trace/setting", "", "404 {")
	for _, path := range []string{"GET /v2/logging", "POST /v2/logging", "GET /v2/trace/setting"} {
		method, at, _ := strings.Cut(path, " ")
		got, _ := web(t, h, method, at, "", "Authorization: Bearer "+servertest.Token("watcher"))
		if !strings.HasPrefix(got, "403 ") {
			t.Errorf("%s by a watcher: %s", path, got)
		}
	}
	open := servertest.New(t, server.Config{})
	got, _ := web(t, open, "POST", "/v2/logging", `{"log_info": false, "log_warning": false}`)
	if !strings.HasPrefix(got, "403 ") {
		t.Errorf("set by everybody: %s", got)
	}
}
