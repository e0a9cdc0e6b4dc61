package modelrepo_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// TestTritonConfigs holds what testdata/triton/NAME.pbtxt sets, and everything that a user is told of it.
func TestTritonConfigs(t *testing.T) {
	files, err := filepath.Glob("testdata/triton/*.pbtxt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no input: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			manifest := ""
			if beside, err := os.ReadFile(strings.TrimSuffix(file, ".pbtxt") + ".yaml"); err == nil {
				manifest = string(beside)
			}
			tmp := t.TempDir()
			files := map[string]string{"repo/m/1/model.onnx": "m", "repo/m/config.pbtxt": string(text)}
			if manifest != "" {
				files["repo/m/model.yaml"] = manifest
			}
			build(t, tmp, files)
			r, err := modelrepo.Open(filepath.Join(tmp, "repo"))
			if err != nil {
				t.Fatal(err)
			}
			l := r.Scan()
			set, err := config.PrintChanged(&l.Models[0].Manifest, modelrepo.Defaults())
			if err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimSuffix(file, ".pbtxt")+".txt", plainSpaces(show(l, tmp))+"\n"+set)
		})
	}
}

// plainSpaces undoes what prototext does to its messages, so that nobody compares them.
func plainSpaces(text string) string { return strings.ReplaceAll(text, "\u00a0", " ") }

// TestNoFieldOfTritonIsForgotten has configurations in which every field is set, by seeds: each sets something, is
// noted, or is a fault. The golden file has which.
func TestNoFieldOfTritonIsForgotten(t *testing.T) {
	outcomes := map[string]map[string]bool{} // by field, without indexes and keys
	index := regexp.MustCompile(`\[[^\]]*\]`)
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 26))
		c := &inference.ModelConfig{}
		populate(rng, c.ProtoReflect())
		c.Name = "m"
		c.Platform, c.Backend, c.DefaultModelFilename = "onnxruntime_onnx", "onnxruntime", "model.onnx"
		if len(c.GetParameters()) > 0 && rng.IntN(2) == 0 {
			for _, key := range []string{"intra_op_thread_count", "gpu_mem_limit", "cudnn_conv_algo_search"} {
				c.Parameters[key] = &inference.ModelParameter{StringValue: "1"}
			}
		}
		text, err := prototext.MarshalOptions{Multiline: true}.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		_, told, notes, faults := modelrepo.TellTriton(text)
		if len(told) < 50 {
			t.Fatalf("seed %d: %d fields are set: %v", seed, len(told), faults)
		}
		for leaf, what := range told {
			field := index.ReplaceAllString(leaf, "")
			if outcomes[field] == nil {
				outcomes[field] = map[string]bool{}
			}
			outcomes[field][what] = true
			if what == "nothing" {
				t.Errorf("seed %d: nothing is told of %s", seed, leaf)
			}
		}
		for _, note := range notes {
			if strings.Contains(note, ":0: ") {
				t.Errorf("seed %d: a note has no place: %s", seed, note)
			}
		}
		for _, fault := range faults {
			if fault.Line == 0 {
				t.Errorf("seed %d: a fault has no place: %v", seed, fault)
			}
		}
	}
	var b strings.Builder
	for _, field := range slices.Sorted(maps.Keys(outcomes)) {
		fmt.Fprintf(&b, "%s: %s\n", field, strings.Join(slices.Sorted(maps.Keys(outcomes[field])), ", "))
	}
	golden(t, "testdata/triton/every.txt", b.String())
	every := map[string]bool{}
	scalars("", (&inference.ModelConfig{}).ProtoReflect().Descriptor(), every)
	for field := range every {
		if outcomes[field] == nil {
			t.Errorf("no configuration has set %s", field)
		}
	}
}

// populate sets every field of a message to something that is not its default; of alternatives it chooses one.
func populate(rng *rand.Rand, m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if of := field.ContainingOneof(); of != nil && of.Fields().Get(rng.IntN(of.Fields().Len())) != field &&
			m.WhichOneof(of) != nil {
			continue
		}
		switch {
		case field.IsMap():
			key := scalar(rng, field.MapKey()).MapKey()
			value := scalar(rng, field.MapValue())
			if field.MapValue().Message() != nil {
				value = m.Mutable(field).Map().NewValue()
				populate(rng, value.Message())
			}
			m.Mutable(field).Map().Set(key, value)
		case field.IsList():
			for range 1 + rng.IntN(2) {
				value := scalar(rng, field)
				if field.Message() != nil {
					value = m.Mutable(field).List().NewElement()
					populate(rng, value.Message())
				}
				m.Mutable(field).List().Append(value)
			}
		case field.Message() != nil:
			populate(rng, m.Mutable(field).Message())
		default:
			m.Set(field, scalar(rng, field))
		}
	}
}

func scalar(rng *rand.Rand, field protoreflect.FieldDescriptor) protoreflect.Value {
	n := 1 + rng.IntN(6)
	switch field.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(min(n, field.Enum().Values().Len()-1)))
	case protoreflect.StringKind:
		known := map[protoreflect.Name][]string{
			"name": {"cuda", "tensorrt", "openvino"}, "key": {"gpu_mem_limit", "use_tf32"},
		}
		if all := known[field.Name()]; all != nil {
			return protoreflect.ValueOfString(all[rng.IntN(len(all))])
		}
		return protoreflect.ValueOfString(fmt.Sprintf("a.b[%d]\"", n))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(n))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(n))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(n))
	}
	return protoreflect.Value{}
}

// scalars adds the fields of a message that are no messages, and those of messages in it.
func scalars(path string, of protoreflect.MessageDescriptor, all map[string]bool) {
	for i := range of.Fields().Len() {
		field := of.Fields().Get(i)
		full := strings.TrimPrefix(path+"."+string(field.Name()), ".")
		switch below := field.Message(); {
		case field.Enum() != nil && field.Enum().Values().Len() == 1: // it is at its default always
		case field.IsMap() && field.MapValue().Message() != nil:
			scalars(full, field.MapValue().Message(), all)
		case field.IsMap() || below == nil || below.Fields().Len() == 0:
			all[full] = true
		case !field.IsMap():
			scalars(full, below, all)
		}
	}
}

// FuzzReadTriton: no bytes crash the reader; a text that is read sets what Check judges.
func FuzzReadTriton(f *testing.F) {
	files, err := filepath.Glob("testdata/triton/*.pbtxt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for seed := range uint64(20) {
		c := &inference.ModelConfig{}
		populate(rand.New(rand.NewPCG(seed, 1)), c.ProtoReflect())
		text, err := prototext.Marshal(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, told, _, faults := modelrepo.TellTriton(text)
		for leaf, what := range told {
			if what == "nothing" {
				t.Errorf("nothing is told of %s", leaf)
			}
		}
		if err := prototext.Unmarshal(text, &inference.ModelConfig{}); err != nil && len(faults) == 0 {
			t.Errorf("no fault, although %v", err)
		}
		_ = m.Check()
	})
}

// TestBrokenTritonConfigs: whatever is broken in a text that was in order, reading it ends, and in faults that have a
// file.
func TestBrokenTritonConfigs(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 2))
		c := &inference.ModelConfig{}
		populate(rng, c.ProtoReflect())
		text, err := prototext.MarshalOptions{Multiline: seed%2 == 0}.Marshal(proto.Message(c))
		if err != nil {
			t.Fatal(err)
		}
		for range 1 + rng.IntN(4) {
			at := rng.IntN(len(text))
			switch rng.IntN(3) {
			case 0:
				text = text[:at+1]
			case 1:
				text[at] = byte(rng.IntN(256))
			default:
				text = slices.Insert(text, at, []byte("{}[]<>:\"'#\\\n-0x")[rng.IntN(15)])
			}
		}
		_, _, _, faults := modelrepo.TellTriton(text)
		for _, fault := range faults {
			if fault.File != "config.pbtxt" || !strings.HasPrefix(fault.String(), "config.pbtxt:") {
				t.Errorf("seed %d: a fault without its file: %v", seed, fault)
			}
		}
	}
}
