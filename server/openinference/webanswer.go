package openinference

import (
	"bufio"
	"encoding/json"
	"io"
	"strconv"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/transport"
	"github.com/weftserve/weft/server/web"
	"github.com/weftserve/weft/server/wire/elements"
)

// inferred is an answer over HTTP: JSON, and the outputs that are bytes behind it. The JSON of the outputs is made as
// it is written, for it takes several times the memory of the tensors. write frees the pieces.
type inferred struct {
	head    any // the members of the JSON without the outputs
	outputs []webOutput
	pieces  mem.BufferSlice // in which the raw outputs lie
}

// webOutput is the JSON of an output, but for its data.
type webOutput struct {
	Name       string         `json:"name"`
	Datatype   string         `json:"datatype"`
	Shape      []int64        `json:"shape"`
	Parameters map[string]any `json:"parameters,omitempty"`

	raw   []byte // the elements; empty if they are in a region
	place place
}

// place is where the elements of an output are.
type place uint8

const (
	inJSON     place = iota
	behindJSON       // with the parameter binary_data_size
	inRegion         // of shared memory; the answer has none of it
)

// inferredOf makes an answer over HTTP of one that was encoded for gRPC. It owns the pieces of that unless there is an
// error, which is a *status.UnsupportedError if an output cannot be JSON.
func inferredOf(encoded *transport.Encoded, w *wanted) (*inferred, error) {
	m, raws, err := messageOf(encoded.Pieces())
	if err != nil {
		return nil, err
	}
	parameters := map[string]any{}
	for key, p := range m.GetParameters() {
		parameters[key] = valueOf(p).any
	}
	a := &inferred{pieces: encoded.Pieces(), head: struct {
		Model      string         `json:"model_name"`
		Version    string         `json:"model_version"`
		ID         string         `json:"id,omitempty"`
		Parameters map[string]any `json:"parameters,omitempty"`
	}{m.GetModelName(), m.GetModelVersion(), m.GetId(), parameters}}
	for i, o := range m.GetOutputs() {
		out := webOutput{Name: o.GetName(), Datatype: o.GetDatatype(), Shape: o.GetShape(), raw: raws[i]}
		if out.Shape == nil {
			out.Shape = []int64{} // JSON would have null
		}
		switch parameters := o.GetParameters(); {
		case len(parameters) > 0: // only outputs in regions have some, see encodeShared
			out.place, out.Parameters = inRegion, map[string]any{}
			for key, p := range parameters {
				out.Parameters[key] = valueOf(p).any
			}
		case w.asBytes(out.Name):
			out.place, out.Parameters = behindJSON, map[string]any{bytesBehind: len(out.raw)}
		default:
			if err := web.Listable(out.Name, dtypeOf(out.Datatype), out.raw); err != nil {
				return nil, err
			}
		}
		a.outputs = append(a.outputs, out)
	}
	return a, nil
}

// messageOf decodes an answer that Encode has made, but for its raw outputs, which stay where they lie.
func messageOf(pieces mem.BufferSlice) (m *inference.ModelInferResponse, raws [][]byte, err error) {
	data := make([][]byte, len(pieces))
	for i, p := range pieces {
		data[i] = p.ReadOnlyData()
	}
	var rest []byte
	// parameters, outputs and raw_output_contents.
	const repeated = 1<<4 | 1<<5 | 1<<6
	for f := elements.ScanOf(elements.NewSource(data), repeated); f.Next(); {
		if f.Tag == elements.BytesTag(6) {
			raws = append(raws, f.Bytes.Whole())
			continue
		}
		rest = protowire.AppendBytes(protowire.AppendVarint(rest, f.Tag), f.Bytes.Whole())
	}
	m = &inference.ModelInferResponse{}
	return m, raws, proto.Unmarshal(rest, m)
}

// Write implements web.Answer. It writes the answer, and frees its memory. Where bytes follow the JSON, a header has
// the length of the JSON, so it is made twice: once only to be counted.
func (a *inferred) Write(v *web.Visit) {
	defer a.pieces.Free()
	size, behind := 1<<10, 0 // about how long the JSON is, and how many bytes follow it
	for i := range a.outputs {
		switch raw := a.outputs[i].raw; a.outputs[i].place {
		case inJSON:
			size += 4 * len(raw) // a guess: a float of four bytes has up to 16 characters
		case behindJSON:
			behind += len(raw)
		case inRegion:
		}
	}
	header := v.W.Header()
	header.Set("Content-Type", "application/json")
	if behind > 0 {
		var head counter
		a.writeJSON(&head, size)
		header.Set("Content-Type", "application/octet-stream")
		header.Set(jsonHeader, strconv.Itoa(int(head)))
		if !v.Packs(size + behind) {
			header.Set("Content-Length", strconv.Itoa(int(head)+behind))
		}
	}
	v.Send(size+behind, func(to io.Writer) { a.writeTo(to, size) })
}

// writeTo writes the JSON and what is behind it. size is about that of the JSON.
func (a *inferred) writeTo(w io.Writer, size int) {
	a.writeJSON(w, size)
	for i := range a.outputs {
		if a.outputs[i].place == behindJSON {
			_, _ = w.Write(a.outputs[i].raw) // a caller that is gone needs no answer
		}
	}
}

// writeJSON writes the JSON of an answer, which has about that size. The same answer is always the same bytes.
func (a *inferred) writeJSON(w io.Writer, size int) {
	to := bufio.NewWriterSize(w, min(size, web.SmallBody))
	var turn protect.Turn
	writeOpen(to, a.head)
	_, _ = to.WriteString(`,"outputs":[`)
	for i := range a.outputs {
		if i > 0 {
			_ = to.WriteByte(',')
		}
		o := &a.outputs[i]
		writeOpen(to, o)
		if o.place == inJSON {
			_, _ = to.WriteString(`,"data":`)
			web.WriteList(to, dtypeOf(o.Datatype), o.raw, &turn)
		}
		_ = to.WriteByte('}')
	}
	_, _ = to.WriteString("]}")
	_ = to.Flush() // a caller that is gone needs no answer
}

// writeOpen writes an object without its last bracket, so that more members can follow.
func writeOpen(to *bufio.Writer, object any) {
	text, _ := json.Marshal(object) //nolint:errchkjson // texts and numbers always are JSON
	_, _ = to.Write(text[:max(0, len(text)-1)])
}

// counter is a writer that only counts what is written.
type counter int

// Write implements io.Writer.
func (c *counter) Write(data []byte) (int, error) {
	*c += counter(len(data))
	return len(data), nil
}
