package access

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// Rule says what the caller of a method needs.
type Rule struct {
	// Method is its full name, such as /weft.v1.ModelService/GetModel.
	Method string
	// AnyOf are the permissions; any one of them will do.
	AnyOf Permissions
	// Public: no permission is needed. Whole: it is needed on all models, because the call shows the whole server.
	Public, Whole bool

	model []protoreflect.FieldDescriptor // leads to the name of the model in a request; none: it has none
}

// foreign are the rules of services of others, by service and method: their descriptors have none of our options.
var foreign = map[string]Rule{
	// Of the server as a whole everybody may know; for a model, see the service.
	"grpc.health.v1.Health/Check": {Public: true},
	"grpc.health.v1.Health/Watch": {Public: true},
	"grpc.health.v1.Health/List":  {Public: true},
	// How loaded the server is everybody may know, too.
	"xds.service.orca.v3.OpenRcaService/StreamCoreMetrics": {Public: true},

	"grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      {AnyOf: Observe},
	"grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": {AnyOf: Observe},
}

// RuleOf returns the rule of a method: that of its descriptor, or for services of others the one that is known here.
// The error says what is missing.
func RuleOf(service, method string) (Rule, error) {
	full := "/" + service + "/" + method
	if r, known := foreign[service+"/"+method]; known {
		r.Method = full
		return r, nil
	}
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service + "." + method))
	if err != nil {
		return Rule{}, fmt.Errorf("%s has no descriptor: %w; add its rule to server/access/rule.go", full, err)
	}
	of, is := d.(protoreflect.MethodDescriptor)
	if !is {
		return Rule{}, fmt.Errorf("%s is no method", full)
	}
	return ruleOf(of)
}

// ruleOf returns the rule in the descriptor of a method. A method without a rule is an error, so that none is open by
// oversight. The field of the model is looked up here once, and read by Model for each request.
func ruleOf(m protoreflect.MethodDescriptor) (Rule, error) {
	r := Rule{Method: fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name())}
	options, _ := m.Options().(*descriptorpb.MethodOptions)
	message, _ := proto.GetExtension(options, weftv1.E_Access).(*weftv1.AccessRule)
	for _, p := range message.GetAnyOf() {
		// The API numbers the others from 1, in the order of the bits here.
		if p == weftv1.Permission_PERMISSION_PUBLIC {
			r.Public = true
		} else if p != weftv1.Permission_PERMISSION_UNSPECIFIED {
			r.AnyOf |= 1 << (p - 1)
		}
	}
	if !r.Public && r.AnyOf == 0 {
		return r, fmt.Errorf("%s has no access rule; give it the option (weft.v1.access), with any_of", r.Method)
	}
	r.Whole = message.GetWholeServer()
	if message.GetModelField() == "" {
		return r, nil
	}
	in := m.Input()
	for name := range strings.SplitSeq(message.GetModelField(), ".") {
		var field protoreflect.FieldDescriptor
		if in != nil {
			field = in.Fields().ByName(protoreflect.Name(name))
		}
		if field == nil || field.Cardinality() == protoreflect.Repeated {
			return r, fmt.Errorf("%s: its access rule names the field %s of %s, which is none; name one of text",
				r.Method, message.GetModelField(), m.Input().FullName())
		}
		r.model = append(r.model, field)
		in = field.Message()
	}
	if r.model[len(r.model)-1].Kind() != protoreflect.StringKind {
		return r, fmt.Errorf("%s: the field %s of its access rule is no text", r.Method, message.GetModelField())
	}
	return r, nil
}

// Model returns the model that a request of the method is about; "": none in particular.
func (r *Rule) Model(request proto.Message) string {
	if len(r.model) == 0 {
		return ""
	}
	m := request.ProtoReflect()
	for _, field := range r.model[:len(r.model)-1] {
		m = m.Get(field).Message()
	}
	return m.Get(r.model[len(r.model)-1]).String()
}
