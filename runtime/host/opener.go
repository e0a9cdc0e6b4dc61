package host

import (
	"context"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// Opener loads a version into an engine, on the device that is named; on another one, which engine.Opened tells, if
// it cannot be there. The error says what was wrong, where, and what to do. It may be called from several goroutines
// at once.
type Opener func(ctx context.Context, v modelrepo.Version, m *modelrepo.Manifest, device string) (engine.Opened, error)

// Site is a device that may run a model.
type Site struct {
	Device string
	// Rank is 0 for what the model is wanted on most. What has a higher rank is taken only if nothing of a lower one can be.
	Rank int
}
