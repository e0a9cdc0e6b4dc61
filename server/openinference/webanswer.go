package openinference

import (
	"bufio"
	"io"
	"strconv"

	"google.golang.org/grpc/mem"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/transport"
	"github.com/weftserve/weft/server/web"
	"github.com/weftserve/weft/server/wire/elements"
)

// inferred is an answer over HTTP: JSON, and the outputs that are bytes behind it. The elements become JSON as they are
// written, for that takes several times the memory of the tensors. Write frees the pieces.
type inferred struct {
	head    []byte // the JSON, but for the outputs and what closes it
	outputs []webOutput
	pieces  mem.BufferSlice // in which the raw outputs lie
}

// webOutput is an output of such an answer.
type webOutput struct {
	head  []byte // the JSON, but for the elements and what closes it
	name  string
	dtype tensor.DType
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

// inferredOf makes an answer over HTTP of one that Encode made for gRPC. It owns the pieces of that unless there is an
// error, which is a *status.UnsupportedError if an output cannot be JSON.
func inferredOf(encoded *transport.Encoded, w *wanted) (*inferred, error) {
	a := &inferred{pieces: encoded.Pieces(), head: []byte{'{'}}
	data := make([][]byte, len(a.pieces))
	for i, p := range a.pieces {
		data[i] = p.ReadOnlyData()
	}
	var parameters []byte
	elementsOf := 0 // the output that comes next with its elements: they are behind all outputs
	// parameters, outputs and raw_output_contents.
	const repeated = 1<<4 | 1<<5 | 1<<6
	for f := elements.ScanOf(elements.NewSource(data), repeated); f.Next(); {
		switch f.Tag {
		case elements.BytesTag(1):
			a.head = appendText(member(a.head, `"model_name":`), &f)
		case elements.BytesTag(2):
			a.head = appendText(member(a.head, `"model_version":`), &f)
		case elements.BytesTag(3):
			a.head = appendText(member(a.head, `"id":`), &f)
		case elements.BytesTag(4):
			parameters = appendParameter(parameters, f.Bytes)
		case elements.BytesTag(5):
			a.outputs = append(a.outputs, outputOf(f.Bytes, w))
		case elements.BytesTag(6):
			a.outputs[elementsOf].raw = f.Bytes.Whole()
			elementsOf++
		}
	}
	a.head = appendParameters(a.head, parameters)
	for i := range a.outputs {
		switch o := &a.outputs[i]; o.place {
		case behindJSON:
			size := strconv.AppendInt([]byte(`"`+bytesBehind+`":`), int64(len(o.raw)), 10)
			o.head = appendParameters(o.head, size)
		case inJSON:
			if err := web.Listable(o.name, o.dtype, o.raw); err != nil {
				return nil, err
			}
		case inRegion:
		}
	}
	return a, nil
}

// outputOf makes an output of its message, which has no elements.
func outputOf(message elements.Source, w *wanted) webOutput {
	o := webOutput{head: append(make([]byte, 0, 128), '{')}
	var shape, parameters []byte
	for f := elements.ScanOf(message, 1<<4); f.Next(); { // parameters
		switch f.Tag {
		case elements.BytesTag(1):
			o.name = string(f.Bytes.Whole())
			o.head = appendText(member(o.head, `"name":`), &f)
		case elements.BytesTag(2):
			o.dtype = dtypeOf(string(f.Bytes.Whole()))
			o.head = appendText(member(o.head, `"datatype":`), &f)
		case elements.BytesTag(3):
			for f.Bytes.Size() > 0 {
				size, _ := f.Bytes.Varint()
				shape = strconv.AppendUint(next(shape), size, 10)
			}
		case elements.BytesTag(4):
			parameters = appendParameter(parameters, f.Bytes)
		}
	}
	o.head = append(append(member(o.head, `"shape":[`), shape...), ']')
	o.head = appendParameters(o.head, parameters)
	switch {
	case len(parameters) > 0: // only outputs in regions have some, see encodeShared
		o.place = inRegion
	case w.asBytes(o.name):
		o.place = behindJSON
	}
	return o
}

// next appends the comma behind the part of a list or an object that came before, if any did.
func next(to []byte) []byte {
	if len(to) > 0 {
		to = append(to, ',')
	}
	return to
}

// appendText appends a field that is a text, as JSON.
func appendText(to []byte, f *elements.Scan) []byte { return web.AppendQuoted(to, f.Bytes.Whole()) }

// member begins a member of an object.
func member(object []byte, name string) []byte {
	if len(object) > 1 {
		object = append(object, ',')
	}
	return append(object, name...)
}

// appendParameter appends an entry of a map of parameters, one of those that parameterOut makes, to others.
func appendParameter(to []byte, entry elements.Source) []byte {
	for f := elements.ScanOf(entry, 0); f.Next(); {
		if f.Tag == elements.BytesTag(1) {
			to = append(appendText(next(to), &f), ':')
			continue
		}
		for v := elements.ScanOf(f.Bytes, 0); v.Next(); {
			switch v.Tag {
			case elements.NumberTag(boolParam):
				to = strconv.AppendBool(to, v.Value != 0)
			case elements.NumberTag(int64Param):
				to = strconv.AppendInt(to, int64(v.Value), 10)
			case elements.BytesTag(textParam):
				to = appendText(to, &v)
			}
		}
	}
	return to
}

// appendParameters appends the parameters to an object, if there are any.
func appendParameters(to, parameters []byte) []byte {
	if len(parameters) == 0 {
		return to
	}
	return append(append(member(to, `"parameters":{`), parameters...), '}')
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
	_, _ = to.Write(a.head)
	_, _ = to.WriteString(`,"outputs":[`)
	for i := range a.outputs {
		if i > 0 {
			_ = to.WriteByte(',')
		}
		o := &a.outputs[i]
		_, _ = to.Write(o.head)
		if o.place == inJSON {
			_, _ = to.WriteString(`,"data":`)
			web.WriteList(to, o.dtype, o.raw, &turn)
		}
		_ = to.WriteByte('}')
	}
	_, _ = to.WriteString("]}")
	_ = to.Flush() // a caller that is gone needs no answer
}

// counter is a writer that only counts what is written.
type counter int

// Write implements io.Writer.
func (c *counter) Write(data []byte) (int, error) {
	*c += counter(len(data))
	return len(data), nil
}
