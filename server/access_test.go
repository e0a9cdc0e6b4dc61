package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/weftserve/weft/internal/race"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/servertest"
)

// need is what a method needs, as this test has it: for services of others from here, else from the descriptor.
type need struct {
	anyOf  []string
	field  string
	whole  bool
	public bool
}

var foreignNeeds = map[string]need{
	"grpc.health.v1.Health":              {public: true},
	"xds.service.orca.v3.OpenRcaService": {public: true},

	"grpc.reflection.v1.ServerReflection": {
		anyOf: []string{"observe"},
	},
	"grpc.reflection.v1alpha.ServerReflection": {
		anyOf: []string{"observe"},
	},
}

// method is a method of a listener.
type method struct {
	desc protoreflect.MethodDescriptor
	need need
}

func (m *method) path() string {
	return fmt.Sprintf("/%s/%s", m.desc.Parent().FullName(), m.desc.Name())
}

// methodsOf lists the methods that are registered with a server.
func methodsOf(t *testing.T, g *grpc.Server) []method {
	t.Helper()
	var all []method
	for service, info := range g.GetServiceInfo() {
		for _, m := range info.Methods {
			name := protoreflect.FullName(service + "." + m.Name)
			d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
			if err != nil {
				t.Fatal(err)
			}
			desc := d.(protoreflect.MethodDescriptor)
			n, foreign := foreignNeeds[service]
			if !foreign {
				rule, _ := proto.GetExtension(desc.Options(), weftv1.E_Access).(*weftv1.AccessRule)
				if len(rule.GetAnyOf()) == 0 {
					t.Errorf("%s says nothing of who may call it", name)
				}
				for _, p := range rule.GetAnyOf() {
					n.public = n.public || p == weftv1.Permission_PERMISSION_PUBLIC
					n.anyOf = append(n.anyOf, strings.ToLower(strings.TrimPrefix(p.String(), "PERMISSION_")))
				}
				n.field, n.whole = rule.GetModelField(), rule.GetWholeServer()
			}
			all = append(all, method{desc, n})
		}
	}
	return all
}

// person is an identity of the matrix: permissions on one pattern of models.
type person struct {
	name, models string
	has          []string
}

func people() []person {
	var all []person
	for i, models := range []string{"policy", "*", "pol*"}[map[bool]int{false: 0, true: 2}[race.Enabled]:] {
		for set := range 8 {
			p := person{name: fmt.Sprintf("p%d-%d", i, set), models: models}
			for bit, permission := range []string{"predict", "observe", "operate"} {
				if set&(1<<bit) != 0 {
					p.has = append(p.has, permission)
				}
			}
			all = append(all, p)
		}
	}
	return all
}

func policyOf(all []person) *access.Config {
	c := &access.Config{Roles: map[string]access.Role{}}
	for _, p := range all {
		var r access.Role
		for _, has := range p.has {
			*map[string]*[]string{"predict": &r.Predict, "observe": &r.Observe, "operate": &r.Operate}[has] = []string{p.models}
		}
		c.Roles[p.name] = r
		c.Identities = append(c.Identities, access.Entry{Name: p.name, Roles: []string{p.name}, Weight: 1})
	}
	return c
}

// on returns the permissions of a person on a model, written down once more.
func (p *person) on(model string) []string {
	covers := p.models == "*" || p.models == model || p.models == "pol*" && strings.HasPrefix(model, "pol")
	if !covers {
		return nil
	}
	return p.has
}

const (
	allowed = "allowed"
	denied  = "denied"
	hidden  = "hidden"
)

// expects returns how a call of a person about a model must end.
func (p *person) expects(n *need, model string) string {
	if n.field == "" {
		model = ""
	}
	var has []string
	switch {
	case n.public:
		return allowed
	case n.whole:
		if p.models == "*" {
			has = p.has
		}
	case model == "":
		has = p.has
	default:
		if has = p.on(model); len(has) == 0 {
			return hidden
		}
	}
	for _, want := range n.anyOf {
		if slices.Contains(has, want) {
			return allowed
		}
	}
	return denied
}

// ask calls a method about a model, and returns the error.
func ask(ctx context.Context, conn *grpc.ClientConn, m *method, model string) error {
	request := dynamicpb.NewMessage(m.desc.Input())
	if m.need.field != "" {
		at := protoreflect.Message(request)
		path := strings.Split(m.need.field, ".")
		for _, name := range path[:len(path)-1] {
			at = at.Mutable(at.Descriptor().Fields().ByName(protoreflect.Name(name))).Message()
		}
		at.Set(at.Descriptor().Fields().ByName(protoreflect.Name(path[len(path)-1])), protoreflect.ValueOfString(model))
	}
	reply := dynamicpb.NewMessage(m.desc.Output())
	if !m.desc.IsStreamingServer() {
		return conn.Invoke(ctx, m.path(), request, reply)
	}
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(ctx, "triton_grpc_error", "true"))
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{
		ServerStreams: true, ClientStreams: m.desc.IsStreamingClient(),
	}, m.path())
	if err != nil {
		return err
	}
	if err := stream.SendMsg(request); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := stream.RecvMsg(reply); err != nil {
		return err
	}
	if m.desc.Name() == "PredictStream" {
		data, err := proto.Marshal(reply)
		if err != nil {
			return err
		}
		var answer weftv1.PredictStreamResponse
		if err := proto.Unmarshal(data, &answer); err != nil {
			return err
		}
		return status.FromProto(answer.GetError()).Err()
	}
	return nil
}

// outcome puts an error into the words of expects.
func outcome(err error) string {
	st := status.Convert(err)
	reason, resource := "", ""
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			reason = d.GetReason()
		case *errdetails.ResourceInfo:
			resource = d.GetResourceType()
		}
	}
	switch st.Code() { //nolint:exhaustive // the others are for reasons of the call
	case codes.PermissionDenied:
		if reason == "PERMISSION_DENIED" {
			return denied
		}
		return reason
	case codes.Unauthenticated:
		return reason
	case codes.NotFound:
		if resource == "model" {
			return hidden
		}
	case codes.Unimplemented:
		if strings.Contains(err.Error(), "this server does not have that") {
			return allowed
		}
		return err.Error()
	}
	return allowed
}

// as returns the context of calls of an identity.
func as(ctx context.Context, name string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+servertest.Token(name))
}

// twoModels is a snapshot of policy and walker.
func twoModels() *catalog.Snapshot {
	s := servertest.PolicySnapshot()
	policy := s.Model("policy")
	walker := *servertest.PolicyVersion(1, catalog.Ready)
	walker.Model = "walker"
	return servertest.SnapshotOf(2, policy, &catalog.Model{Name: "walker", Versions: []*catalog.Version{&walker}})
}

// idle changes nothing.
type idle struct{}

func (idle) Newest(string) (int64, error)                               { return 1, nil }
func (idle) AwaitVersion(context.Context, string, int64) (bool, error)  { return true, nil }
func (idle) LoadVersion(context.Context, string, int64, string) error   { return nil }
func (idle) UnloadVersion(context.Context, string, int64, string) error { return nil }
func (idle) SetLabel(_, _ string, _ int64, _ string) error              { return nil }
func (idle) SetTraffic(_ string, t *catalog.Traffic, _ uint64) (*catalog.Traffic, error) {
	return t, nil
}

// guarded returns a house with access control, and a connection to its admin listener.
func guarded(t *testing.T, control *servertest.Control) (*servertest.House, *grpc.Server, *grpc.ClientConn) {
	t.Helper()
	h := servertest.New(t, server.Config{Access: &control.Control, Residents: idle{}})
	h.Current.Store(twoModels())
	h.ModelsChanged()
	a := server.NewAdmin(h.Server, idle{})
	g := grpc.NewServer(h.AdminOptions(a)...)
	a.Register(g)
	return h, g, servertest.Dial(t, g)
}

// TestWhoMayCallWhat: every method of both listeners, called by every identity about every model, ends as its rule and
// the identity's role say. The methods are the registered ones, and the rules come from their descriptors.
func TestWhoMayCallWhat(t *testing.T) {
	all := people()
	control := servertest.NewControl(t, policyOf(all))
	h, admin, adminConn := guarded(t, control)
	calls, ends := 0, map[string]int{}
	for listener, of := range map[string]struct {
		server *grpc.Server
		conn   *grpc.ClientConn
	}{"main": {h.GRPC, h.Conn}, "admin": {admin, adminConn}} {
		methods := methodsOf(t, of.server)
		for i := range methods {
			m := &methods[i]
			models := []string{"policy", "walker", "", "nonesuch", "polygon"}
			if m.need.field == "" {
				models = models[:1] // it names none
			}
			for _, p := range all {
				for _, model := range models {
					want := p.expects(&m.need, model)
					err := ask(as(t.Context(), p.name), of.conn, m, model)
					got := outcome(err)
					if (model == "nonesuch" || model == "polygon") && want == allowed && got == hidden {
						want = hidden // it is not there at all, unless something else is wrong with the request before
					}
					if got != want {
						t.Errorf("%s %s by %v on %s about %q is %s, want %s: %v",
							listener, m.path(), p.has, p.models, model, got, want, err)
					}
					if got == hidden && strings.Contains(err.Error(), "there is") {
						wantListed(t, err, &p)
					}
					calls++
					ends[got]++
				}
			}
			if m.need.public {
				continue
			}
			for reason, ctx := range map[string]context.Context{
				"IDENTITY_REQUIRED": t.Context(),
				"TOKEN_UNKNOWN":     as(t.Context(), "a stranger"),
				"TOKEN_MALFORMED":   metadata.AppendToOutgoingContext(t.Context(), "authorization", "Basic abc"),
			} {
				if got := outcome(ask(ctx, of.conn, m, "policy")); got != reason {
					t.Errorf("%s %s without an identity is %s, want %s", listener, m.path(), got, reason)
				}
			}
		}
	}
	t.Logf("%d calls: %v", calls, ends)
	for _, end := range []string{allowed, denied, hidden} {
		if ends[end] == 0 {
			t.Errorf("no call was %s", end)
		}
	}
}

// wantListed wants an error about a model to list the models that the person sees.
func wantListed(t *testing.T, err error, p *person) {
	t.Helper()
	for _, model := range []string{"policy", "walker"} {
		_, listed, _ := strings.Cut(err.Error(), "there is ")
		if sees := len(p.on(model)) > 0; sees != strings.Contains(listed, model) {
			t.Errorf("%s (%v on %s): %v", p.name, p.has, p.models, err)
		}
	}
}

// TestHiddenLikeAbsent: what a caller is told of a model that it may not see is, but for the name, what it is told of
// one that does not exist.
func TestHiddenLikeAbsent(t *testing.T) {
	sees := person{name: "sees", models: "policy", has: []string{"predict", "observe", "operate"}}
	control := servertest.NewControl(t, policyOf([]person{sees}))
	h, admin, adminConn := guarded(t, control)
	tried := 0
	for server, conn := range map[*grpc.Server]*grpc.ClientConn{h.GRPC: h.Conn, admin: adminConn} {
		for _, m := range methodsOf(t, server) {
			if m.need.field == "" {
				continue
			}
			told := func(model string) string {
				st := status.Convert(ask(as(t.Context(), "sees"), conn, &m, model))
				text := fmt.Sprintf("%v %s", st.Code(), st.Message())
				text += fmt.Sprintf("\n%v", st.Details())
				return strings.Join(strings.Fields(strings.ReplaceAll(text, model, "NAME")), " ")
			}
			if there, not := told("walker"), told("wolker"); there != not {
				t.Errorf("%s: of a model that is there\n%s\nof one that is not\n%s", m.path(), there, not)
			}
			tried++
		}
	}
	if tried < 15 {
		t.Errorf("only %d methods were tried", tried)
	}
	list := func(name string) []string {
		answer, err := h.Catalog.ListModels(as(t.Context(), name), &weftv1.ListModelsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, m := range answer.GetModels() {
			names = append(names, fmt.Sprint(m.GetName(), " ", len(m.GetVersions())))
		}
		return names
	}
	if got := list("sees"); !slices.Equal(got, []string{"policy 4"}) {
		t.Errorf("it lists %q", got)
	}
	two := policyOf([]person{{name: "two", models: "policy", has: []string{"observe"}}})
	role := two.Roles["two"]
	role.Predict = []string{"walker"}
	two.Roles["two"] = role
	control.Set(t, two)
	if got := list("two"); !slices.Equal(got, []string{"policy 4", "walker 0"}) {
		t.Errorf("what it may only ask for predictions is not shown by name: %q", got)
	}
}

// TestHealthIsShownToWhoSees a model.
func TestHealthIsShownToWhoSees(t *testing.T) {
	control := servertest.NewControl(t, policyOf([]person{{name: "sees", models: "policy", has: []string{"predict"}}}))
	h, _, _ := guarded(t, control)
	h.Current.Store(servertest.SnapshotOf(9, &catalog.Model{
		Name: "policy", Versions: []*catalog.Version{servertest.PolicyVersion(1, catalog.Ready)},
	}))
	h.ModelsChanged()
	for name, want := range map[string]map[string]string{
		"sees":       {"": "SERVING", "ready": "SERVING", "live": "SERVING", "policy": "SERVING", "walker": "NotFound", "nonesuch": "NotFound"},
		"a stranger": {"": "SERVING", "ready": "SERVING", "live": "SERVING", "policy": "NotFound", "walker": "NotFound", "nonesuch": "NotFound"},
	} {
		got := statusesAs(as(t.Context(), name), t, h, slices.Collect(maps.Keys(want))...)
		if !maps.Equal(got, want) {
			t.Errorf("%s gets %v, want %v", name, got, want)
		}
		maps.DeleteFunc(want, func(_, status string) bool { return status != "SERVING" })
		all, err := healthgrpc.NewHealthClient(h.Conn).List(as(t.Context(), name), &healthgrpc.HealthListRequest{})
		listed := map[string]string{}
		for service, answer := range all.GetStatuses() {
			listed[service] = answer.GetStatus().String()
		}
		if err != nil || !maps.Equal(listed, want) {
			t.Errorf("%s is listed %v, %v, want %v", name, listed, err, want)
		}
	}
}
