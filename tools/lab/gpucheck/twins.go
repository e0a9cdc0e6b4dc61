package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/tools/lab/harness"
)

// twin is a version of a model that is served twice: on the device, under its own name, and on the CPU.
type twin struct {
	model   string
	version int64
	dir     string // where it came from
}

func (t twin) String() string { return fmt.Sprintf("%s/%d", t.model, t.version) }

// onCPU returns the name under which a model is served on the CPU.
func onCPU(model string) string { return model + ".on-cpu" }

// placeTwins copies every model of a repository into another, once for the device and once for the CPU, with all its
// versions and its own settings, except where and how it is executed and which version answers which callers.
func placeTwins(from, to, provider string) ([]twin, error) {
	repository, err := modelrepo.Open(from)
	if err != nil {
		return nil, err
	}
	listing := repository.Scan()
	var all []twin
	for i := range listing.Models {
		m := &listing.Models[i]
		if m.Err != nil || m.Manifest.Synth != nil {
			continue
		}
		found := len(all)
		for _, v := range m.Versions {
			if v.Err != nil {
				continue
			}
			for _, name := range []string{m.Name, onCPU(m.Name)} {
				if err := os.CopyFS(filepath.Join(to, name, strconv.FormatInt(v.Number, 10)),
					os.DirFS(v.Dir)); err != nil {
					return nil, err
				}
			}
			all = append(all, twin{m.Name, v.Number, v.Dir})
		}
		if len(all) == found {
			continue
		}
		manifest := m.Manifest
		manifest.Versions = modelrepo.Defaults().Versions
		manifest.Versions.Policy = modelrepo.Policy{All: true}
		manifest.Traffic = nil
		for name, on := range map[string]string{m.Name: provider, onCPU(m.Name): cpu} {
			manifest.ONNX = modelrepo.Defaults().ONNX // which rounds nothing to tf32
			manifest.ONNX.IntraOpThreads = m.Manifest.ONNX.IntraOpThreads
			manifest.ONNX.Providers = []modelrepo.Provider{modelrepo.Provider(on)}
			text, err := modelrepo.Print(&manifest)
			if err != nil {
				return nil, err
			}
			if err := harness.Write(filepath.Join(to, name, modelrepo.ManifestName), []byte(text)); err != nil {
				return nil, err
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s holds no model that can be served (%w)", from, listing.Err())
	}
	return all, nil
}
