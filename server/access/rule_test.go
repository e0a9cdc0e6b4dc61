package access

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// TestRulesOfDescriptors: a method without a rule, or with one that leads nowhere, is found out.
func TestRulesOfDescriptors(t *testing.T) {
	rule := func(field string, of ...weftv1.Permission) *weftv1.AccessRule {
		return &weftv1.AccessRule{AnyOf: of, ModelField: field}
	}
	const predict, operate = weftv1.Permission_PERMISSION_PREDICT, weftv1.Permission_PERMISSION_OPERATE
	for name, tt := range map[string]struct {
		rule *weftv1.AccessRule
		want string // part of the error; "": there is none
	}{
		"None":      {nil, "/weft.test.New/None has no access rule; give it the option (weft.v1.access)"},
		"Empty":     {rule("model.name"), "no access rule"},
		"Unset":     {rule("model.name", weftv1.Permission_PERMISSION_UNSPECIFIED), "no access rule"},
		"Whole":     {rule("", operate), ""},
		"Named":     {rule("model.name", predict), ""},
		"Nowhere":   {rule("model.nme", predict), "names the field model.nme of weft.v1.PredictRequest, which is none"},
		"Below":     {rule("model.name.more", predict), "which is none"},
		"Repeated":  {rule("outputs", predict), "which is none"},
		"Message":   {rule("model", predict), "is no text"},
		"Public":    {rule("", weftv1.Permission_PERMISSION_PUBLIC), ""},
		"NotString": {rule("end_of_episode", predict), "is no text"},
	} {
		options := &descriptorpb.MethodOptions{}
		if tt.rule != nil {
			proto.SetExtension(options, weftv1.E_Access, tt.rule)
		}
		file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
			Name: new("new.proto"), Package: new("weft.test"), Syntax: new("proto3"),
			Dependency: []string{"weft/v1/prediction_service.proto"},
			Service: []*descriptorpb.ServiceDescriptorProto{{
				Name: new("New"),
				Method: []*descriptorpb.MethodDescriptorProto{{
					Name: new(name), InputType: new(".weft.v1.PredictRequest"),
					OutputType: new(".weft.v1.PredictResponse"), Options: options,
				}},
			}},
		}, protoregistry.GlobalFiles)
		if err != nil {
			t.Fatal(err)
		}
		r, err := ruleOf(file.Services().Get(0).Methods().Get(0))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: error %v, want %q", name, err, tt.want)
		}
		if tt.want == "" {
			q := &weftv1.PredictRequest{Model: &weftv1.ModelSpec{Name: "m"}}
			want := map[bool]string{true: "m"}[name == "Named"]
			if r.Model(q) != want || r.Model(&weftv1.PredictRequest{}) != "" {
				t.Errorf("%s is about %q, want %q", name, r.Model(q), want)
			}
		}
	}
	if _, err := RuleOf("weft.v1.Unheard", "Of"); err == nil || !strings.Contains(err.Error(), "server/access/rule.go") {
		t.Errorf("a service without descriptors: %v", err)
	}
}
