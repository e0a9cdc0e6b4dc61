// Package simgpu is a GPU for tests on machines that have none.
//
// It builds a shared library that Weft loads in place of ONNX Runtime's. The library hands every call on to the real
// one, except for those by which a session gets the provider CUDA: these append an execution provider of its own,
// which ONNX Runtime loads as a plugin. The functions of the CUDA runtime that Weft calls are there, too. So Weft takes
// all its ways for CUDA, unchanged, and ONNX Runtime does the planning, the copies and the capture of graphs.
//
// The provider is stricter than a GPU where that finds mistakes:
//
//   - The processor has no right to touch device memory: a read or write is SIGSEGV.
//   - Kernels and copies are done later, by a thread for each stream, if need be after a delay.
//   - A kernel that is given another address than one of the device loses the device.
//   - Memory that was not written holds NaN.
//   - A graph belongs to the thread that captured it. During a capture, calls of any thread that allocate or wait fail,
//     and spoil it. A captured graph that is destroyed on a lost device ends the process.
//
// It computes a few operators for float, and leaves the others to the processor. There is one device.
package simgpu
