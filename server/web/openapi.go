package web

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/routing"
)

// object is an object of JSON.
type object = map[string]any

// About is what a description says of the server.
type About struct {
	Release string
	Address string // where it takes calls of gRPC
}

// Describe adds the lists of models, and /openapi.json, which describes the calls of the models (OpenAPI 3.1), for
// programs and for the page /docs; what that needs besides is in its member x-weft. Callers are let in as to Add's
// pages.
func (p *Pages) Describe(mux *Mux, service, method string, about About) {
	for _, pattern := range []string{"GET /v1/models", "GET /v2/models"} {
		p.Add(mux, pattern, service, method, func(v *Visit) (any, error) {
			return map[string][]string{"models": p.Names(v)}, nil
		})
	}
	// Pages ask for it again and again: the latest text holds as long as the same models look the same.
	var latest atomic.Pointer[description]
	p.Add(mux, "GET /openapi.json", service, method, func(v *Visit) (any, error) {
		table, names := p.Pipeline.Table(), p.Names(v)
		d := latest.Load()
		if d == nil || d.table != table || !slices.Equal(d.names, names) {
			text, err := json.Marshal(describe(table, names, about))
			if err != nil {
				return nil, err
			}
			d = &description{table, names, text}
			latest.Store(d)
		}
		return d, nil
	})
}

// description is of the models of these names, as a table has them.
type description struct {
	table *routing.Table
	names []string
	text  []byte
}

// Write implements Answer.
func (d *description) Write(v *Visit) {
	v.W.Header().Set("Content-Type", "application/json")
	v.Send(len(d.text), func(w io.Writer) {
		_, _ = w.Write(d.text) // a caller that is gone needs no answer
	})
}

// describe makes /openapi.json.
func describe(table *routing.Table, names []string, about About) object {
	paths := object{
		"/v1/models": object{"get": operation("The models", "names", object{"type": "object"})},
		"/v2":        object{"get": operation("The server and its extensions", "metadata", object{"type": "object"})},
		"/healthz":   object{"get": operation("Whether the process runs", "alive", nil)},
		"/readyz":    object{"get": operation("Whether requests can be answered", "ready", nil)},
		"/metrics":   object{"get": operation("Metrics of Prometheus", "metrics", nil)},
	}
	models := []object{}
	for _, name := range names {
		m, err := table.Model(name)
		if err != nil { // it went meanwhile
			continue
		}
		said := object{"name": name, "versions": versionsOf(m), "labels": m.Labels}
		models = append(models, said)
		at := "/v1/models/" + name
		paths[at] = object{"get": operation("The versions of "+name, "states", object{"type": "object"})}
		route, err := table.Resolve(name, routing.Choice{})
		if err != nil {
			said["unready"] = err.Error()
			continue
		}
		sig, state := route.Version.Signature, route.Version.EpisodeState
		example, short := object{}, object{}
		brought := []string{} // the inputs that the server does not fill in an episode
		for i := range sig.Inputs {
			example[sig.Inputs[i].Name] = Example(&sig.Inputs[i])
			if !state.Fills(i) {
				short[sig.Inputs[i].Name] = example[sig.Inputs[i].Name]
				brought = append(brought, sig.Inputs[i].Name)
			}
		}
		said["inputs"], said["example"] = specsOf(sig.Inputs, state.Fills), example
		said["outputs"] = specsOf(sig.Outputs, state.Keeps)
		properties := schemaOf(sig.Inputs)
		if state != nil {
			short["parameters"], properties["parameters"], said["parameters"] = firstStep, stepSchema, firstStep
		}
		paths[at+":predict"] = object{"post": posted("Predict with "+name, object{"inputs": example}, object{
			"type": "object", "properties": object{
				"inputs":    object{"type": "object", "properties": schemaOf(sig.Inputs), "required": namesOf(sig.Inputs)},
				"instances": object{"type": "array", "description": "A list of rows in the place of inputs."},
			},
		}, object{"type": "object", "properties": object{"outputs": object{
			"type": "object", "description": "The elements alone where there is one output.",
			"properties": schemaOf(sig.Outputs),
		}}})}
		paths["/v2/models/"+name+"/infer"] = object{"post": posted(
			"Predict with "+name+" by the Open Inference Protocol", short, object{
				"type": "object", "properties": properties, "required": brought,
			}, object{"type": "object"})}
	}
	return object{
		"openapi": "3.1.0", "info": object{"title": "Weft", "version": about.Release}, "paths": paths,
		"servers": []object{{"url": "."}}, "x-weft": object{"grpc": about.Address, "models": models},
	}
}

// firstStep are the parameters of the first request of an episode, whose state the server keeps, and stepSchema says
// what they may be.
var (
	firstStep  = object{"sequence_id": "example", "sequence_start": true}
	stepSchema = object{"type": "object", "properties": object{
		"sequence_id":    object{"type": []string{"string", "integer"}, "description": "The episode."},
		"sequence_start": object{"type": "boolean", "description": "It begins with this request."},
		"sequence_end":   object{"type": "boolean", "description": "It ends with this request."},
		"sequence_step":  object{"type": "integer", "description": "The number of this step, ascending from 1."},
	}, "description": "In an episode the server keeps the inputs that are not required. Without one all are."}
)

// operation describes a call without a body, and what its answer is, of that schema; nil: it is a text.
func operation(summary, answer string, schema object) object {
	content := object{"application/json": object{"schema": schema}}
	if schema == nil {
		content = object{"text/plain": object{"schema": object{"type": "string"}}}
	}
	return object{"summary": summary, "responses": object{"200": object{"description": answer, "content": content}}}
}

// posted describes a call with a body.
func posted(summary string, example, body, answer object) object {
	o := operation(summary, "the outputs", answer)
	o["requestBody"] = object{"required": true, "content": object{
		"application/json": object{"schema": body, "example": example},
	}}
	o["responses"].(object)["default"] = object{
		"description": "what was wrong, where, and what was expected", "content": object{"application/json": object{
			"schema": object{"type": "object", "properties": object{"error": object{"type": "string"}}},
		}},
	}
	return o
}

func versionsOf(m *catalog.Model) []object {
	all := make([]object, len(m.Versions))
	for i, v := range m.Versions {
		all[i] = object{"version": v.Number, "state": fmt.Sprint(v.State)}
	}
	return all
}

func namesOf(specs []tensor.Spec) []string {
	all := make([]string, len(specs))
	for i := range specs {
		all[i] = specs[i].Name
	}
	return all
}

// specsOf describes tensors to people, and which of them the server keeps in an episode.
func specsOf(specs []tensor.Spec, kept func(int) bool) []object {
	all := make([]object, len(specs))
	for i := range specs {
		all[i] = object{"name": specs[i].Name, "dtype": specs[i].DType.String(), "shape": specs[i].Shape, "kept": kept(i)}
	}
	return all
}

// schemaOf describes tensors by name, as lists within each other.
func schemaOf(specs []tensor.Spec) object {
	all := object{}
	for i := range specs {
		element := object{"type": "integer"}
		switch d := specs[i].DType; {
		case d == tensor.String:
			element = object{"type": "string"}
		case d == tensor.Bool:
			element = object{"type": "boolean"}
		case d.IsFloat():
			element = object{"type": "number"}
		}
		for _, size := range slices.Backward(specs[i].Shape) {
			list := object{"type": "array", "items": element}
			if size != tensor.Unknown {
				list["minItems"], list["maxItems"] = size, size
			}
			element = list
		}
		all[specs[i].Name] = element
	}
	return all
}

// Example returns a value of an input: zeros, with one entry in each open dimension. It is nil for a large one.
func Example(spec *tensor.Spec) any {
	const most = 1 << 10
	count := int64(1)
	for _, size := range spec.Shape {
		if max(1, size) > most/count {
			return nil
		}
		count *= max(1, size)
	}
	var value any = 0
	switch spec.DType {
	case tensor.String:
		value = "text"
	case tensor.Bool:
		value = false
	default:
	}
	for _, size := range slices.Backward(spec.Shape) {
		value = slices.Repeat([]any{value}, int(max(1, size)))
	}
	return value
}
