package ort

/*
#include "cudart.h"
*/
import "C"

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
)

// capability is the compute capability of a GPU, or of code for GPUs, such as 90 for 9.0.
type capability int

func (c capability) String() string { return fmt.Sprintf("%d.%d", c/10, c%10) }

// gpuCode is the code for GPUs in a library.
type gpuCode struct {
	compiled []capability // machine code, which GPUs of the same major and no lower minor version run
	portable []capability // PTX, which the driver compiles for GPUs of no lower capability
}

// runsOn reports whether a GPU can run the code. Code for 9.0a and the like counts as that for 9.0.
func (c gpuCode) runsOn(gpu capability) bool {
	return slices.ContainsFunc(c.compiled, func(k capability) bool { return k/10 == gpu/10 && k <= gpu }) ||
		slices.ContainsFunc(c.portable, func(k capability) bool { return k <= gpu })
}

// The format of NVIDIA's fat binaries, which a library has in a section one after the other: a header and then pieces
// of code, each after a header of its own. NVIDIA does not publish it. What is not understood counts as no code.
const (
	fatSection   = ".nv_fatbin"
	fatMagic     = 0xba55ed50
	fatHeader    = 16 // bytes: magic (4), version (2), size of the header (2), size of the rest (8)
	pieceHeader  = 32 // bytes of it that are read: kind (2), version (2), its size (4), size of the code (8)
	capabilityAt = 28 // in it
	pieceOfPTX   = 1
	pieceOfCode  = 2
)

// readGPUCode finds out for which GPUs a library has code.
func readGPUCode(library string) (code gpuCode, err error) {
	file, err := elf.Open(library)
	if err != nil {
		return code, err
	}
	defer file.Close()
	section := file.Section(fatSection)
	if section == nil {
		return code, errors.New("the library has no section " + fatSection)
	}
	for at := int64(0); at+fatHeader <= int64(section.Size); {
		var fat [fatHeader]byte
		if _, err := section.ReadAt(fat[:], at); err != nil {
			return code, err
		}
		if binary.LittleEndian.Uint32(fat[:]) != fatMagic {
			at += 8 // padding
			continue
		}
		begin := at + int64(binary.LittleEndian.Uint16(fat[6:]))
		at = begin + int64(binary.LittleEndian.Uint64(fat[8:]))
		if at <= begin || at > int64(section.Size) {
			return code, errors.New("a fat binary ends beyond its section")
		}
		if err := code.read(section, begin, at); err != nil {
			return code, err
		}
	}
	return code, nil
}

// read adds the pieces of one fat binary.
func (c *gpuCode) read(from io.ReaderAt, at, end int64) error {
	for at+pieceHeader <= end {
		var piece [pieceHeader]byte
		if _, err := from.ReadAt(piece[:], at); err != nil {
			return err
		}
		of := capability(binary.LittleEndian.Uint32(piece[capabilityAt:]))
		kind := binary.LittleEndian.Uint16(piece[:])
		list := map[uint16]*[]capability{pieceOfPTX: &c.portable, pieceOfCode: &c.compiled}[kind]
		if list != nil && !slices.Contains(*list, of) {
			*list = append(*list, of)
			slices.Sort(*list)
		}
		size := int64(binary.LittleEndian.Uint32(piece[4:])) + int64(binary.LittleEndian.Uint64(piece[8:]))
		if size <= 0 {
			return errors.New("a piece of a fat binary has no size")
		}
		at += size
	}
	return nil
}

// checkGPUCode returns an error if the provider's library has no code for a device, which shows when the first kernel
// is run (CUDA error 209). Where that cannot be found out, it returns nil.
func checkGPUCode(device int) error { return checkCode(providerLibrary(CUDA), device) }

func checkCode(library string, device int) error {
	cuda := presentCUDA()
	if cuda == nil {
		return nil
	}
	gpu := capability(C.weft_cuda_capability(cuda, C.int(device)))
	code, err := readGPUCode(library)
	if gpu <= 0 || err != nil || len(code.compiled)+len(code.portable) == 0 || code.runsOn(gpu) {
		return nil //nolint:nilerr // nobody knows then
	}
	return fmt.Errorf("%s has no code for a GPU of compute capability %v: it has some for %s; a build of ONNX Runtime "+
		"that has it is needed", library, gpu, words(code))
}

func words(code gpuCode) string {
	var all []string
	for _, c := range code.compiled {
		all = append(all, c.String())
	}
	for _, c := range code.portable {
		all = append(all, c.String()+" and later")
	}
	return strings.Join(all, ", ")
}

// providerLibrary is where the library of a provider lies: next to ONNX Runtime's.
func providerLibrary(name string) string {
	return filepath.Join(filepath.Dir(library.path), sharedLibrary("onnxruntime_providers_"+name))
}
