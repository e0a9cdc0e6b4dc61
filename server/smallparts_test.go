package server_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weftserve/weft/internal/hostile"
	"github.com/weftserve/weft/internal/race"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
)

// rawCodec sends bytes as they are.
type rawCodec struct{}

func (rawCodec) Name() string                  { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error) { return v.([]byte), nil }

func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = bytes.Clone(data)
	return nil
}

var _ encoding.Codec = rawCodec{}

// manyParts returns for each repeated field of a kind of message, at any depth, a message with very many elements of
// the least size there, by the path of the field.
func manyParts(d protoreflect.MessageDescriptor, size int) map[string][]byte {
	all := map[string][]byte{}
	var walk func(d protoreflect.MessageDescriptor, path string, within func([]byte) []byte, above []protoreflect.FullName)
	walk = func(
		d protoreflect.MessageDescriptor, path string, within func([]byte) []byte, above []protoreflect.FullName,
	) {
		if slices.Contains(above, d.FullName()) {
			return
		}
		above = append(above, d.FullName())
		for i := range d.Fields().Len() {
			f := d.Fields().Get(i)
			at := path + "." + string(f.Name())
			if f.IsList() || f.IsMap() {
				one := element(f)
				all[at] = within(bytes.Repeat(one, size/len(one)))
				packed := protowire.AppendTag(nil, f.Number(), protowire.BytesType)
				all[at+", as one"] = within(protowire.AppendBytes(packed, make([]byte, size)))
			}
			if f.Message() != nil && !f.IsMap() {
				walk(f.Message(), at, func(inner []byte) []byte {
					return within(protowire.AppendBytes(protowire.AppendTag(nil, f.Number(), protowire.BytesType), inner))
				}, above)
			}
			if f.IsMap() && f.MapValue().Message() != nil {
				walk(f.MapValue().Message(), at, func(inner []byte) []byte {
					entry := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), inner)
					return within(protowire.AppendBytes(protowire.AppendTag(nil, f.Number(), protowire.BytesType), entry))
				}, above)
			}
		}
	}
	walk(d, "", func(inner []byte) []byte { return inner }, nil)
	return all
}

// element is the smallest element of a repeated field, with its tag.
func element(f protoreflect.FieldDescriptor) []byte {
	switch f.Kind() {
	case protoreflect.FloatKind:
		return append(protowire.AppendTag(nil, f.Number(), protowire.Fixed32Type), 0, 0, 0, 0)
	case protoreflect.DoubleKind:
		return append(protowire.AppendTag(nil, f.Number(), protowire.Fixed64Type), 0, 0, 0, 0, 0, 0, 0, 0)
	case protoreflect.MessageKind, protoreflect.StringKind, protoreflect.BytesKind:
		return append(protowire.AppendTag(nil, f.Number(), protowire.BytesType), 0)
	default:
		return append(protowire.AppendTag(nil, f.Number(), protowire.VarintType), 0)
	}
}

// TestSmallPartsTakeLittle: whatever the method, a message must not take a large multiple of its bytes.
func TestSmallPartsTakeLittle(t *testing.T) {
	race.Skip(t, "one call at a time, for its memory")
	const size = 2 << 20
	h := servertest.New(t, server.Config{})
	conn := servertest.Dial(t, h.GRPC)
	tried := 0
	for service := range h.GRPC.GetServiceInfo() {
		if strings.HasPrefix(service, "grpc.") || strings.HasPrefix(service, "xds.") {
			continue // gRPC's own, whose messages are small; and one with one method, which does not end
		}
		for _, m := range hostile.Methods(protoreflect.FullName(service)) {
			for path, message := range manyParts(m.Input, size) {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				err := call(ctx, conn, m, message)
				cancel()
				runtime.ReadMemStats(&after)
				tried++
				if took := (after.TotalAlloc - before.TotalAlloc) / uint64(len(message)); took > 20 {
					t.Errorf("%s%s: %d bytes took %d times as many; %v", m.Path, path, len(message), took, err)
				}
				if c := status.Code(err); c == codes.Internal || c == codes.Unknown || c == codes.DeadlineExceeded {
					t.Errorf("%s%s: %v", m.Path, path, err)
				}
			}
		}
	}
	if tried < 50 {
		t.Errorf("only %d messages were tried", tried)
	}
}

// call sends one message, and takes what comes.
func call(ctx context.Context, conn *grpc.ClientConn, m hostile.Method, message []byte) error {
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, m.Path,
		grpc.ForceCodec(rawCodec{}))
	if err != nil {
		return err
	}
	if err := stream.SendMsg(message); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for {
		var answer []byte
		switch err := stream.RecvMsg(&answer); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}
