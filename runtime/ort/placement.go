package ort

/*
#include <stdlib.h>
#include "capi.h"
*/
import "C"

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unsafe"

	onnxruntime "github.com/yalue/onnxruntime_go"
)

// recordPlacement is the session option by which ONNX Runtime remembers where it places nodes.
const recordPlacement = "session.record_ep_graph_assignment_info"

// placement is where the nodes of a model on a GPU run, after the basic optimisations of the graph, which fold
// constants.
type placement struct {
	nodes int
	cuda  map[string]int // operators that CUDA computes, and how many nodes have each
	left  map[string]int // likewise, for nodes left to the processor; what remains is TensorRT's
}

// placementOf asks where the nodes of a session run that was made with recordPlacement.
func placementOf(session *onnxruntime.DynamicAdvancedSession) (placement, error) {
	p := placement{cuda: map[string]int{}, left: map[string]int{}}
	native, err := address(session)
	if err != nil {
		return p, err
	}
	api, err := hold()
	if err != nil {
		return p, err
	}
	defer release()
	list, count := new(*C.weft_placement), new(C.size_t)
	err = take(api, C.weft_placements(api, native, list, count))
	defer C.free(unsafe.Pointer(*list))
	if err != nil {
		return p, err
	}
	p.nodes = int(*count)
	for _, node := range unsafe.Slice(*list, *count) {
		switch C.GoString(node.provider) {
		case theirName(CPU):
			p.left[C.GoString(node.op)]++
		case theirName(TensorRT):
		default:
			p.cuda[C.GoString(node.op)]++
		}
	}
	return p, nil
}

// notes says which nodes are left to the processor.
func (p placement) notes() []string {
	left := 0
	for _, n := range p.left {
		left += n
	}
	if left == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d of %d nodes run on the CPU: %s", left, p.nodes,
		strings.Join(slices.Sorted(maps.Keys(p.left)), ", "))}
}
