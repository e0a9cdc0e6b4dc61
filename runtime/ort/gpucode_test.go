package ort_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/weftserve/weft/runtime/ort"
)

// fatBinary is a library with code for GPUs: in each fat binary, pieces of a kind (1: PTX, 2: machine code) and a
// compute capability.
func fatBinary(t *testing.T, fats ...[][2]int) string {
	t.Helper()
	var section []byte
	for _, pieces := range fats {
		var rest []byte
		for i, piece := range pieces {
			header := make([]byte, 64)
			binary.LittleEndian.PutUint16(header, uint16(piece[0]))
			binary.LittleEndian.PutUint32(header[4:], 64)
			binary.LittleEndian.PutUint64(header[8:], uint64(8*i))
			binary.LittleEndian.PutUint32(header[28:], uint32(piece[1]))
			rest = append(append(rest, header...), make([]byte, 8*i)...)
		}
		section = binary.LittleEndian.AppendUint32(section, 0xba55ed50)
		section = binary.LittleEndian.AppendUint16(section, 1)
		section = binary.LittleEndian.AppendUint16(section, 16)
		section = binary.LittleEndian.AppendUint64(section, uint64(len(rest)))
		section = append(append(section, rest...), make([]byte, 16)...) // and padding
	}
	if section == nil {
		return shared(t, "int nothing;")
	}
	var source strings.Builder
	source.WriteString(`__attribute__((section(".nv_fatbin"), used)) static const unsigned char code[] = {`)
	for _, b := range section {
		fmt.Fprintf(&source, "%d,", b)
	}
	return shared(t, source.String()+"};")
}

// A GPU runs machine code for its own major version and no later minor one, and PTX for no later capability.
func TestGPUCode(t *testing.T) {
	// As in the provider of the onnxruntime-gpu 1.30.0 for CUDA 13.
	wheel := fatBinary(t, [][2]int{{2, 75}, {2, 80}, {2, 86}}, [][2]int{{2, 89}, {2, 90}, {2, 120}, {2, 75}})
	portable := fatBinary(t, [][2]int{{2, 80}, {1, 90}})
	for _, test := range []struct {
		library string
		gpu     int
		runs    bool
	}{
		{wheel, 70, false},
		{wheel, 75, true},
		{wheel, 80, true},
		{wheel, 87, true},
		{wheel, 90, true},
		{wheel, 100, false},
		{wheel, 103, false},
		{wheel, 110, false},
		{wheel, 120, true},
		{wheel, 121, true},
		{portable, 75, false},
		{portable, 86, true},
		{portable, 90, true},
		{portable, 100, true},
	} {
		text, runs, err := ort.GPUCode(test.library, test.gpu)
		if err != nil || runs != test.runs {
			t.Errorf("code for %s on %d: runs %t, %v; want %t", text, test.gpu, runs, err, test.runs)
		}
	}
}

// Code that a device cannot run is an error when a model is opened there. Where it is not known, the run shows it.
func TestMissingGPUCode(t *testing.T) {
	useFakeCUDA(t)
	if _, err := ort.NewPinner(0, nil); err != nil { // has the process load it
		t.Fatal(err)
	}
	library := fatBinary(t, [][2]int{{2, 75}, {2, 90}, {1, 75}}[:2], [][2]int{{2, 120}})
	for capability, missing := range map[string]bool{"90": false, "100": true, "0": false} {
		t.Setenv("FAKE_CUDA_CAPABILITY", capability)
		err := ort.CheckGPUCode(library, 0)
		if missing {
			contains(t, err, library, "no code for a GPU of compute capability 10.0", "7.5, 9.0, 12.0")
		} else if err != nil {
			t.Errorf("capability %s: %v", capability, err)
		}
	}
	t.Setenv("FAKE_CUDA_CAPABILITY", "100")
	for name, library := range map[string]string{
		"no library": "/nowhere/lib.so", "no code": fatBinary(t), "damaged": fatBinary(t, [][2]int{{7, 80}}),
	} {
		if err := ort.CheckGPUCode(library, 0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Setenv("FAKE_CUDA_FAIL", "cudaDeviceGetAttribute=101")
	if err := ort.CheckGPUCode(library, 0); err != nil {
		t.Errorf("a device that does not answer: %v", err)
	}
}
