package openinference

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/status"
)

// verbosity is a level of the log in Triton's terms, of which each includes those before it: errors are always logged.
type verbosity struct {
	warning, info bool
	verbose       uint32
}

func verbosityOf(level slog.Level) verbosity {
	v := verbosity{warning: level <= slog.LevelWarn, info: level <= slog.LevelInfo}
	if level <= slog.LevelDebug {
		v.verbose = 1
	}
	return v
}

// level returns the level of the log. The error is a *tensor.FieldError.
func (v verbosity) level() (slog.Level, error) {
	level := slog.LevelError
	switch {
	case v.verbose > 0:
		level = slog.LevelDebug
	case v.info:
		level = slog.LevelInfo
	case v.warning:
		level = slog.LevelWarn
	}
	if all := verbosityOf(level); v.info != all.info || v.warning != all.warning {
		return 0, &tensor.FieldError{
			Field: "settings",
			Want: "each kind of records with the more severe ones: log_verbose_level above 0 with log_info, and log_info " +
				"with log_warning",
			Got: "one without the other",
		}
	}
	return level, nil
}

// LogSettings implements inference.GRPCInferenceServiceServer.
func (s *Service) LogSettings(
	ctx context.Context, q *inference.LogSettingsRequest,
) (*inference.LogSettingsResponse, error) {
	if len(q.GetSettings()) > 0 {
		if !s.Operated {
			return nil, s.fail(ctx, &status.ElsewhereError{})
		}
		if err := s.setLog(ctx, q.GetSettings()); err != nil {
			return nil, s.fail(ctx, err)
		}
	}
	return s.logSettings(), nil
}

func (s *Service) logSettings() *inference.LogSettingsResponse {
	type value = inference.LogSettingsResponse_SettingValue
	is := func(b bool) *value {
		return &value{ParameterChoice: &inference.LogSettingsResponse_SettingValue_BoolParam{BoolParam: b}}
	}
	text := func(t string) *value {
		return &value{ParameterChoice: &inference.LogSettingsResponse_SettingValue_StringParam{StringParam: t}}
	}
	v := verbosityOf(s.Level.Level())
	return &inference.LogSettingsResponse{Settings: map[string]*value{
		"log_error": is(true), "log_warning": is(v.warning), "log_info": is(v.info),
		"log_verbose_level": {
			ParameterChoice: &inference.LogSettingsResponse_SettingValue_Uint32Param{Uint32Param: v.verbose},
		},
		"log_file": text(""), "log_format": text("default"),
	}}
}

// setLog changes the level of the log, as all of the settings together ask.
func (s *Service) setLog(ctx context.Context, settings map[string]*inference.LogSettingsRequest_SettingValue) error {
	before := s.Level.Level()
	v := verbosityOf(before)
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		if err := v.set(key, settings[key]); err != nil {
			return err
		}
	}
	level, err := v.level()
	if err != nil || level == before {
		return err
	}
	tell := func() {
		s.Logger.WarnContext(ctx, "log level changed", append([]any{
			"event", "log_level_changed", "from", before, "to", level,
		}, who(ctx)...)...)
	}
	if level > before { // afterwards this may not be logged any more
		tell()
	}
	s.Level.Set(level)
	if level < before {
		tell()
	}
	return nil
}

// set takes a setting over. The error is a *tensor.FieldError or a *status.UnsupportedError.
func (v *verbosity) set(key string, value *inference.LogSettingsRequest_SettingValue) error {
	fault := func(want string) error {
		return &tensor.FieldError{
			Field: "settings[" + routing.Quote(key) + "]", Want: want, Got: settingText(value),
		}
	}
	number, isNumber := value.GetParameterChoice().(*inference.LogSettingsRequest_SettingValue_Uint32Param)
	text, isText := value.GetParameterChoice().(*inference.LogSettingsRequest_SettingValue_StringParam)
	on, isBool := value.GetParameterChoice().(*inference.LogSettingsRequest_SettingValue_BoolParam)
	is := func(to *bool) error {
		if !isBool {
			return fault("a bool")
		}
		*to = on.BoolParam
		return nil
	}
	switch key {
	case "log_info":
		return is(&v.info)
	case "log_warning":
		return is(&v.warning)
	case "log_error":
		if !isBool || !on.BoolParam {
			return fault("true: errors are always logged")
		}
	case "log_verbose_level":
		if !isNumber {
			return fault("a number that is not negative")
		}
		v.verbose = number.Uint32Param
	case "log_file":
		if !isText || text.StringParam != "" {
			return &status.UnsupportedError{
				What: "settings.log_file", Instead: "redirect the server's standard error, where its log goes",
			}
		}
	case "log_format":
		if !isText || text.StringParam != "default" {
			return &status.UnsupportedError{What: "settings.log_format", Instead: "start the server with --log-format"}
		}
	default:
		return fault("log_info, log_warning, log_error, log_verbose_level, log_file or log_format")
	}
	return nil
}

func settingText(value *inference.LogSettingsRequest_SettingValue) string {
	switch c := value.GetParameterChoice().(type) {
	case *inference.LogSettingsRequest_SettingValue_BoolParam:
		return strconv.FormatBool(c.BoolParam)
	case *inference.LogSettingsRequest_SettingValue_Uint32Param:
		return strconv.FormatUint(uint64(c.Uint32Param), 10)
	case *inference.LogSettingsRequest_SettingValue_StringParam:
		return routing.Quote(c.StringParam)
	}
	return "nothing"
}
