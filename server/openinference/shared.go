package openinference

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/status"
	"github.com/weftserve/weft/server/web"
	"github.com/weftserve/weft/server/wire/elements"
)

// usesRegions is the permission that callers need whose requests name regions: every region is there for all callers,
// so it is the one to register them.
var usesRegions = access.Rule{
	Method: inference.GRPCInferenceService_SystemSharedMemoryRegister_FullMethodName, AnyOf: access.Operate, Whole: true,
}

// mayUseRegions returns why a caller may not send a request that names regions; nil: it may.
func mayUseRegions(c *access.Caller) error {
	if err := c.Check(&usesRegions, ""); err != nil {
		return fmt.Errorf("requests that name regions of shared memory need the permission to register them: %w", err)
	}
	return nil
}

// locate finds the tensors of a message that lie in regions. It refuses inputs there that, together with the came bytes
// of the message, are larger than a message may be: they take as much memory as if they had been sent. It must follow
// ask, which finds the classes.
func (r *request) locate(came int) error {
	var err error
	for i := range r.inputs {
		in := &r.inputs[i]
		if in.place, err = r.part(func() string { return inputField(in) }, in.GetParameters()); err != nil {
			return err
		}
		if in.place == nil {
			continue
		}
		r.shared += in.place.Size
		if limit := r.house.MaxMessageBytes; in.place.Size > int64(limit) || r.shared > int64(limit-came) {
			return &status.MessageTooLargeError{
				Bytes: came + int(r.shared), Limit: limit, What: "the message with its inputs in shared memory",
			}
		}
	}
	for i := range r.outputs {
		o := &r.outputs[i]
		field := func() string { return outputField(o.GetName()) }
		if o.place, err = r.part(field, o.GetParameters()); err != nil {
			return err
		}
		if o.place != nil && o.classes > 0 {
			return &tensor.FieldError{
				Field: field() + ".parameters", Want: "either classification or shared_memory_region", Got: "both",
			}
		}
	}
	return nil
}

// part returns the part of a region that the parameters of a tensor name; nil: they name none. The request holds the
// part until it is released. field names the tensor, for errors.
func (r *request) part(field func() string, parameters map[string]*inference.InferParameter) (*Part, error) {
	var name string
	var size, offset uint64
	err := each(parameters, func(key string, p value) (ok bool, want string) {
		switch key {
		case "shared_memory_region":
			return set(&name, p) && name != "", "the name of a region"
		case "shared_memory_byte_size":
			size, ok = p.natural()
			return ok, "a number that is not negative"
		case "shared_memory_offset":
			offset, ok = p.natural()
			return ok, "a number that is not negative"
		}
		return !strings.HasPrefix(key, "shared_memory_"), "shared_memory_region, _byte_size or _offset"
	})
	if err != nil {
		return nil, web.InPart(field(), err)
	}
	// A tensor with any of the three lies in a region, and then two of them are needed.
	_, sized := parameters["shared_memory_byte_size"]
	_, moved := parameters["shared_memory_offset"]
	if name == "" && !sized && !moved {
		return nil, nil //nolint:nilnil // the tensor is in the message
	}
	r.sharing = true // also if what follows fails: Brings decides whether the caller learns why
	if name == "" || !sized {
		return nil, &tensor.FieldError{
			Field: field() + ".parameters", Want: "both shared_memory_region and shared_memory_byte_size",
			Got: "one of them, or neither",
		}
	}
	part, err := r.regions.Part(field(), name, offset, size)
	if err == nil {
		r.Holds = append(r.Holds, part)
	}
	return part, err
}

// inRegions is how a region holds elements: raw only, texts behind their lengths.
var inRegions = elements.Protocol{
	RawTexts: true, RawHalves: true, Names: [elements.Lists]string{elements.Raw: "shared memory"},
}

// decodeShared reads an input from its region, once: a version that is tried after another one must get the same
// elements, and the owner of the region may change it at any time. The copy is the request's until letGo.
func (r *request) decodeShared(spec *tensor.Spec, in *input, shape tensor.Shape) (tensor.Tensor, error) {
	count, err := predict.Elements(spec, shape)
	if err != nil {
		return tensor.Tensor{}, err
	}
	if size := int64(spec.DType.Size()); size > 0 && count*size != in.place.Size {
		return tensor.Tensor{}, &tensor.FieldError{
			Field: `parameters["shared_memory_byte_size"]`,
			Want:  fmt.Sprintf("%d (shape %v of %v)", count*size, tensor.Shape(in.GetShape()), spec.DType),
			Got:   strconv.FormatInt(in.place.Size, 10),
		}
	}
	if in.copied == nil {
		if in.copied, err = in.place.Read(r.house.Memory); err != nil {
			return tensor.Tensor{}, err
		}
		r.copies = append(r.copies, in.copied)
	}
	came := elements.Came{Raw: *in.copied, Sizes: elements.Sizes{elements.Raw: len(*in.copied)}}
	t, _, err := inRegions.Decode(spec, shape, &came, nil)
	return t, err
}

// fits refuses an output that is larger than its part of a region. CheckOutput asks it before the model runs, where the
// shape is known by then, and encodeShared afterwards.
func fits(o *output, bytes int64) error {
	if o.place == nil || bytes <= o.place.Size {
		return nil
	}
	return &tensor.FieldError{
		Field: outputField(o.GetName()) + `.parameters["shared_memory_byte_size"]`,
		Want:  fmt.Sprintf("at least the %d bytes that the output takes", bytes), Got: strconv.FormatInt(o.place.Size, 10),
	}
}

// encodeShared writes an output to its region, and appends the parameters that say so to the output's message. What it
// has written stays there if the request fails later.
func (r *request) encodeShared(w *elements.Writer, o *output, data []byte) error {
	if err := fits(o, int64(len(data))); err != nil {
		return err
	}
	if err := o.place.Write(data); err != nil {
		if fault, is := err.(*tensor.FieldError); is { //nolint:errorlint // as Write returns it
			fault.Field = outputField(o.GetName()) // Write does not know which output it is
		}
		return err
	}
	parameterOut(w, "shared_memory_region", o.place.Name())
	parameterOut(w, "shared_memory_byte_size", int64(len(data)))
	if o.place.Offset > 0 {
		parameterOut(w, "shared_memory_offset", o.place.Offset)
	}
	return nil
}

// Brings implements transport.Bringing: the bytes of inputs in regions count in the caller's quotas. If the caller may
// not use regions, that becomes the request's Fault, in the place of one that tells whether a region exists and how
// large it is.
func (r *request) Brings(by *access.Caller) int {
	if !r.sharing {
		return 0
	}
	if err := mayUseRegions(by); err != nil {
		r.Fault = err
		return 0
	}
	return int(r.shared)
}

// letGo gives back the copies that the request has. Nothing may read them any more.
func (r *request) letGo() {
	for _, data := range r.copies {
		r.house.Memory.Put(data)
	}
	clear(r.copies)
	r.copies, r.shared, r.sharing = r.copies[:0], 0, false
}
