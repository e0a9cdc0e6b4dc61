package live

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/status"
)

// call answers a call of ModelService as JSON: the fields of the request are those of the query. It calls the handler
// of the generated code itself, so that each call that one answer ends can be made, and streams cannot. The service is
// not told who calls: Handler lets only callers in who may observe everything.
func (p *Page) call(w http.ResponseWriter, r *http.Request) {
	for _, m := range weftv1.ModelService_ServiceDesc.Methods {
		if m.MethodName != r.PathValue("method") {
			continue
		}
		// A fault of the query is told apart from an error of the call.
		var wrong error
		answer, err := m.Handler(p.Models, r.Context(), func(request any) error {
			wrong = fill(request.(proto.Message), r.URL.Query())
			return wrong
		}, nil)
		switch {
		case wrong != nil:
			fail(w, http.StatusBadRequest, wrong.Error())
			return
		case err != nil:
			code, text, _ := status.HTTP(err)
			fail(w, code, text)
			return
		}
		data, err := protojson.Marshal(answer.(proto.Message))
		if err != nil {
			fail(w, http.StatusInternalServerError, err.Error())
			return
		}
		w.Header().Set("Content-Type", "application/json")
		send(w, r, data)
		return
	}
	fail(w, http.StatusNotFound, fmt.Sprintf("ModelService has no call %q that one answer ends", r.PathValue("method")))
}

// fill sets the fields of a request that a query names. A name that is no field is an error: a misspelt filter would
// otherwise show everything.
func fill(request proto.Message, query url.Values) error {
	m := request.ProtoReflect()
	for name, values := range query {
		field := m.Descriptor().Fields().ByName(protoreflect.Name(name))
		if field == nil || field.IsList() || len(values) != 1 {
			return fmt.Errorf("the query's %q: expected one value of a field of %s", name, m.Descriptor().FullName())
		}
		v, err := valueOf(field, values[0])
		if err != nil {
			return fmt.Errorf("the query's %q: %w", name, err)
		}
		m.Set(field, v)
	}
	return nil
}

// valueOf reads the value of a field: a text, a number, true or false, or the name of an enumeration's value. Other
// kinds have no form in a query.
func valueOf(field protoreflect.FieldDescriptor, text string) (v protoreflect.Value, err error) {
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text), nil
	case protoreflect.BoolKind:
		if slices.Contains([]string{"true", "false"}, text) {
			return protoreflect.ValueOfBool(text == "true"), nil
		}
		return v, fmt.Errorf("expected true or false, got %q", text)
	case protoreflect.Uint32Kind:
		n, err := strconv.ParseUint(text, 10, 32)
		return protoreflect.ValueOfUint32(uint32(n)), err
	case protoreflect.Int32Kind:
		n, err := strconv.ParseInt(text, 10, 32)
		return protoreflect.ValueOfInt32(int32(n)), err
	case protoreflect.Int64Kind:
		n, err := strconv.ParseInt(text, 10, 64)
		return protoreflect.ValueOfInt64(n), err
	case protoreflect.EnumKind:
		if of := field.Enum().Values().ByName(protoreflect.Name(text)); of != nil {
			return protoreflect.ValueOfEnum(of.Number()), nil
		}
		return v, fmt.Errorf("%s has no %q", field.Enum().FullName(), text)
	}
	return v, errors.New("it cannot be in a query")
}
