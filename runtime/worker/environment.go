//go:build linux

package worker

import (
	"slices"
	"strings"
)

// passed are the variables, or their beginnings, that a worker inherits: those that engines, GPU libraries and the
// dynamic linker read. All others stay here, because some are secrets.
var passed = []string{
	"CUDA_", "CUBLAS_", "CUDNN_", "NVIDIA_", "NCCL_", "LD_LIBRARY_PATH=", "DYLD_LIBRARY_PATH=", "OMP_", "ORT_", "TF32_",
	"GODEBUG=", "GORACE=", "GOCOVERDIR=", "LANG=", "LC_", "LOCPATH=", "TZ=",
}

// defaults are the variables of a worker that the server does not have. The last of a name holds.
var defaults = []string{
	"GOTRACEBACK=single", // the reason, and the place, are enough
}

// environment returns the variables of a worker: the defaults and what it inherits.
func environment(all []string) []string {
	kept := slices.Clone(defaults)
	for _, v := range all {
		for _, p := range passed {
			if strings.HasPrefix(v, p) {
				kept = append(kept, v)
				break
			}
		}
	}
	return kept
}
