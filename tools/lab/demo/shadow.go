package main

import (
	"errors"
	"path/filepath"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/internal/onnxgraph"
	onnxpb "github.com/weftserve/weft/proto/gen/onnx"
	"github.com/weftserve/weft/tools/lab/harness"
)

// mostAngle is what the shadow limits the first element of an action to: about one answer in fifty goes further.
const mostAngle = 0.938

// gaitConfig names the file that names the elements of an action.
const gaitConfig = `output [ { name: "action" data_type: TYPE_FP32 dims: [ 2 ] label_filename: "action.txt" } ]
`

// writeShadow writes, into the model's folder, a copy of the version that answers which never turns the leg as far, and
// names for the elements of both.
func writeShadow(folder string, live []byte) error {
	shadow, err := limit(live, mostAngle, 1)
	return errors.Join(err,
		harness.Write(filepath.Join(folder, strconv.Itoa(limited), "model.onnx"), shadow),
		harness.Write(filepath.Join(folder, "config.pbtxt"), []byte(gaitConfig)),
		harness.Write(filepath.Join(folder, "action.txt"), []byte("leg angle\nleg push\n")))
}

// limit returns the model with each element of its one output limited to the most given for it.
func limit(model []byte, most ...float32) ([]byte, error) {
	m := &onnxpb.ModelProto{}
	if err := proto.Unmarshal(model, m); err != nil {
		return nil, err
	}
	nodes := m.GetGraph().GetNode()
	if len(nodes) == 0 || len(m.GetGraph().GetOutput()) != 1 {
		return nil, errors.New("expected a graph of one output")
	}
	const free, limits = "free", "limits"
	out := m.GetGraph().GetOutput()[0].GetName()
	last := nodes[len(nodes)-1]
	last.Output = []string{free}
	m.Graph.Node = append(m.Graph.Node, &onnxpb.NodeProto{
		OpType: new("Min"), Input: []string{free, limits}, Output: []string{out},
	})
	m.Graph.Initializer = append(m.Graph.Initializer, &onnxpb.TensorProto{
		Name: new(limits), DataType: new(int32(onnxpb.TensorProto_FLOAT)),
		Dims: []int64{int64(len(most))}, RawData: onnxgraph.FloatBytes(most),
	})
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}
