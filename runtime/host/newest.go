package host

import (
	"fmt"

	"github.com/weftserve/weft/runtime/catalog"
)

// Newest returns the number of a model's newest version in the repository now. The error wraps catalog.ErrUnknown.
func (h *Host) Newest(model string) (int64, error) {
	if h.cfg.Scan != nil {
		for _, found := range h.cfg.Scan().Models {
			if found.Name == model && len(found.Versions) > 0 {
				return found.Versions[len(found.Versions)-1].Number, nil
			}
		}
	}
	return 0, fmt.Errorf("model %q: %w: the repository has no version of it", model, catalog.ErrUnknown)
}
