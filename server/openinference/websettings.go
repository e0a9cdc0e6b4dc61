package openinference

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/routing"
)

// settings are the pages of the log and of traces. What is read is the answer to what is set, too.
func (s *Web) settings(page pages) {
	for _, method := range []string{"GET ", "POST "} {
		page(method+"/v2/logging", "LogSettings", func(v *visit) (any, error) {
			q := &inference.LogSettingsRequest{}
			if method == "POST " {
				var asked map[string]scalar
				if err := v.read(&asked); err != nil {
					return nil, s.fail(v.ctx, err)
				}
				var err error
				if q.Settings, err = logSettingsOf(asked); err != nil {
					return nil, s.fail(v.ctx, err)
				}
			}
			all, err := s.LogSettings(v.ctx, q)
			out := map[string]any{}
			for key, value := range all.GetSettings() {
				for _, one := range plain(value.ProtoReflect()) {
					out[key] = one
				}
			}
			return out, err
		})
		for _, of := range []string{"/v2", "/v2/models/{model}"} {
			page(method+of+"/trace/setting", "TraceSetting", func(v *visit) (any, error) {
				q := &inference.TraceSettingRequest{ModelName: v.model()}
				if method == "POST " {
					var asked map[string]json.RawMessage
					if err := v.read(&asked); err != nil {
						return nil, s.fail(v.ctx, err)
					}
					for key := range asked { // which say what is not supported
						q.Settings = map[string]*inference.TraceSettingRequest_SettingValue{key: {}}
					}
				}
				all, err := s.TraceSetting(v.ctx, q)
				out := map[string]any{}
				for key, value := range all.GetSettings() {
					if out[key] = value.GetValue()[0]; key == "trace_level" {
						out[key] = value.GetValue()
					}
				}
				return out, err
			})
		}
	}
}

func logSettingsOf(asked map[string]scalar) (map[string]*inference.LogSettingsRequest_SettingValue, error) {
	out := map[string]*inference.LogSettingsRequest_SettingValue{}
	for key, value := range asked {
		to := &inference.LogSettingsRequest_SettingValue{}
		switch v := value.value.(type) {
		case bool:
			to.ParameterChoice = &inference.LogSettingsRequest_SettingValue_BoolParam{BoolParam: v}
		case string:
			to.ParameterChoice = &inference.LogSettingsRequest_SettingValue_StringParam{StringParam: v}
		case json.Number:
			n, err := strconv.ParseUint(v.String(), 10, 32)
			if err != nil {
				return nil, &tensor.FieldError{
					Field: "settings[" + routing.Quote(key) + "]", Want: "a number from 0 to " + strconv.Itoa(math.MaxUint32),
					Got: v.String(),
				}
			}
			to.ParameterChoice = &inference.LogSettingsRequest_SettingValue_Uint32Param{Uint32Param: uint32(n)}
		}
		out[key] = to
	}
	return out, nil
}
