package onnxgraph

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// message is one encoded protocol buffer message under construction; its methods append one field each.
type message []byte

func (m *message) int(field protowire.Number, v int64) {
	*m = protowire.AppendTag(*m, field, protowire.VarintType)
	*m = protowire.AppendVarint(*m, uint64(v))
}

func (m *message) float(field protowire.Number, v float32) {
	*m = protowire.AppendTag(*m, field, protowire.Fixed32Type)
	*m = protowire.AppendFixed32(*m, math.Float32bits(v))
}

func (m *message) bytes(field protowire.Number, v []byte) {
	*m = protowire.AppendTag(*m, field, protowire.BytesType)
	*m = protowire.AppendBytes(*m, v)
}

func (m *message) text(field protowire.Number, v string) { m.bytes(field, []byte(v)) }

func (m *message) repeat(field protowire.Number, vs []message) {
	for _, v := range vs {
		m.bytes(field, v)
	}
}

// entry encodes a StringStringEntryProto.
func entry(key, value string) message {
	var m message
	m.text(1, key)
	m.text(2, value)
	return m
}
