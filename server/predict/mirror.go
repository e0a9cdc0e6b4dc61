package predict

import (
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/shadow"
)

// Shadows runs requests once more on other versions, in spare time.
type Shadows interface {
	// Offer never blocks and never fails: a request for which there is no room is dropped and counted.
	Offer(shadow.Offer)
}

// mirror offers an answered request to the versions in the shadow of the one that answered it.
func (p *Pipeline) mirror(f *flight, route *routing.Route) {
	if p.config.Shadows == nil {
		return
	}
	m := p.models.Snapshot().Model(f.result.Model)
	if m == nil || m.Traffic == nil || len(m.Traffic.Shadow) == 0 {
		return
	}
	o := shadow.Offer{
		Primary: &f.call, Slot: route.Slot, RequestID: f.req.ID, Episode: f.req.Episode, Named: m.Traffic.Shadow,
	}
	if f.req.trace != nil {
		o.Follow = f.req.trace.Follow()
	}
	for _, target := range route.Shadows {
		if v := m.Version(target.Version); v != nil && v.State == catalog.Ready {
			o.Shadows = append(o.Shadows, shadow.Target{Version: v, Shadow: target})
		}
	}
	p.config.Shadows.Offer(o)
}
