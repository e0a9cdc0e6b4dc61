// Package wire carries tensors to and from weft.v1 messages.
//
// A message carries the elements of a tensor in one of two forms: raw, which is the layout of tensor.Tensor.Data, or in
// a typed list, of which there is one for each kind of element. [Decode] reads a message for an input that is known,
// [Tensor] reads one by the element type that it names itself, and [Encode] writes one. A client and a replay go
// through these three. The server's codec has an [Inbound] for each request, which leaves raw elements where they lie.
package wire
