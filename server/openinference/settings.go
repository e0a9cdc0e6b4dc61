package openinference

import (
	"context"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/status"
)

// verbosity is a level of the log in Triton's terms: a switch for each kind of records. Weft has levels, and each
// includes the ones before it, so not all switches can be set alone.
//
//	level  log_error  log_warning  log_info  log_verbose_level
//	error  true       false        false     0
//	warn   true       true         false     0
//	info   true       true         true      0
//	debug  true       true         true      1; any number above 0 sets it
type verbosity struct {
	warning, info bool
	verbose       uint32
}

// verbosityOf returns the switches that a level stands for. Debug is log_verbose_level 1.
func verbosityOf(level slog.Level) verbosity {
	v := verbosity{warning: level <= slog.LevelWarn, info: level <= slog.LevelInfo}
	if level <= slog.LevelDebug {
		v.verbose = 1
	}
	return v
}

// level returns the level of the log that the switches stand for. The error is a *tensor.FieldError: no level logs a
// kind of records without the more severe ones.
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

// LogSettings implements inference.GRPCInferenceServiceServer. It converts the settings from and to messages of gRPC,
// see logSettings.
func (s *Service) LogSettings(
	ctx context.Context, q *inference.LogSettingsRequest,
) (*inference.LogSettingsResponse, error) {
	asked := map[string]value{}
	for key, to := range q.GetSettings() {
		switch c := to.GetParameterChoice().(type) {
		case *inference.LogSettingsRequest_SettingValue_BoolParam:
			asked[key] = value{c.BoolParam}
		case *inference.LogSettingsRequest_SettingValue_Uint32Param:
			asked[key] = value{uint64(c.Uint32Param)}
		case *inference.LogSettingsRequest_SettingValue_StringParam:
			asked[key] = value{c.StringParam}
		default:
			asked[key] = value{}
		}
	}
	all, err := s.logSettings(ctx, asked)
	answer := &inference.LogSettingsResponse{Settings: map[string]*inference.LogSettingsResponse_SettingValue{}}
	for key, is := range all {
		m := &inference.LogSettingsResponse_SettingValue{}
		// logSettings has values of these types only.
		switch is := is.(type) {
		case bool:
			m.ParameterChoice = &inference.LogSettingsResponse_SettingValue_BoolParam{BoolParam: is}
		case uint32:
			m.ParameterChoice = &inference.LogSettingsResponse_SettingValue_Uint32Param{Uint32Param: is}
		case string:
			m.ParameterChoice = &inference.LogSettingsResponse_SettingValue_StringParam{StringParam: is}
		}
		answer.Settings[key] = m
	}
	return answer, err
}

// logSettings changes the settings of the log, if any are asked for, and returns all of them. A setting that is not
// asked for stays as it is. The error is one with which a call ends.
func (s *Service) logSettings(ctx context.Context, asked map[string]value) (map[string]any, error) {
	if len(asked) > 0 {
		if !s.Operated {
			return nil, s.fail(ctx, &status.ElsewhereError{})
		}
		if err := s.setLog(ctx, asked); err != nil {
			return nil, s.fail(ctx, err)
		}
	}
	v := verbosityOf(s.Level.Level())
	return map[string]any{
		"log_error": true, "log_warning": v.warning, "log_info": v.info, "log_verbose_level": v.verbose,
		"log_file": "", "log_format": "default",
	}, nil
}

// setLog changes the level of the log, as all of the settings together ask: either all are taken over or none. The
// change is logged while the more verbose of both levels holds, so that its record is not left out.
func (s *Service) setLog(ctx context.Context, settings map[string]value) error {
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

// set takes a setting over. The error is a *tensor.FieldError or, of a setting that cannot be changed here, a
// *status.UnsupportedError.
func (v *verbosity) set(key string, to value) error {
	ok, want := true, "a bool"
	switch key {
	case "log_info":
		ok = set(&v.info, to)
	case "log_warning":
		ok = set(&v.warning, to)
	case "log_error":
		ok, want = to.any == true, "true: errors are always logged"
	case "log_verbose_level":
		level, natural := to.natural()
		v.verbose = uint32(level)
		ok, want = natural && level <= math.MaxUint32, "a number from 0 to "+strconv.Itoa(math.MaxUint32)
	case "log_file":
		if to.any != "" {
			return &status.UnsupportedError{
				What: "settings.log_file", Instead: "redirect the server's standard error, where its log goes",
			}
		}
	case "log_format":
		if to.any != "default" {
			return &status.UnsupportedError{What: "settings.log_format", Instead: "start the server with --log-format"}
		}
	default:
		ok, want = false, "log_info, log_warning, log_error, log_verbose_level, log_file or log_format"
	}
	if !ok {
		return &tensor.FieldError{Field: "settings" + parameterKey(key), Want: want, Got: to.String()}
	}
	return nil
}

// TraceSetting implements inference.GRPCInferenceServiceServer: Triton's traces are off.
func (s *Service) TraceSetting(
	ctx context.Context, q *inference.TraceSettingRequest,
) (*inference.TraceSettingResponse, error) {
	if len(q.GetSettings()) > 0 {
		return nil, s.unsupported(ctx, "a trace of requests in a file",
			"read the metrics, the execution in each answer of weft.v1, and its GetSchedulerState, record requests with "+
				"--record, or have spans exported by OTEL_EXPORTER_OTLP_ENDPOINT, which go on the traces of callers")
	}
	if name := q.GetModelName(); name != "" {
		if _, err := s.Pipeline.Table().Model(name); err != nil {
			return nil, s.fail(ctx, err)
		}
	}
	m := &inference.TraceSettingResponse{Settings: map[string]*inference.TraceSettingResponse_SettingValue{}}
	for key, value := range map[string]string{
		"trace_level": "OFF", "trace_file": "", "trace_rate": "0", "trace_count": "0", "log_frequency": "0",
	} {
		m.Settings[key] = &inference.TraceSettingResponse_SettingValue{Value: []string{value}}
	}
	return m, nil
}
