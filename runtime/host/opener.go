package host

import (
	"context"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/fleet/placement"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// Opener loads a version into an engine, on the device that is named; on another one, which engine.Opened tells, if
// it cannot be there. The error says what was wrong, where, and what to do. It may be called from several goroutines
// at once.
type Opener func(ctx context.Context, v modelrepo.Version, m *modelrepo.Manifest, device string) (engine.Opened, error)

// Site is a device that may run a model.
type Site = placement.Site
