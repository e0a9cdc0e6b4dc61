package predict

import (
	"time"

	"github.com/weftserve/weft/server/rollout"
	"github.com/weftserve/weft/server/routing"
)

// route chooses the version that answers a request, and says so in the result.
func (p *Pipeline) route(f *flight) (routing.Route, error) {
	route, err := p.router.Route(p.models.Snapshot(), routing.Request{
		Model: f.req.Model, Choice: f.req.Choice, Episode: f.req.Episode, RequestID: f.req.ID,
		Serial: p.salt + f.observed.number, // not that of a request before a restart
	})
	f.routed = time.Now()
	if err != nil {
		return route, err
	}
	v := route.Version
	f.result.Place = Place{
		Model: v.Model, Version: v.Number, Slot: route.Slot, Degraded: route.Degraded,
		FailedOverFrom: route.FailedOverFrom,
	}
	f.drawn = route.Drawn
	if p.config.Rollouts != nil && !route.Began.IsZero() && route.Drawn {
		p.config.Rollouts.Begun(v.Model, v.Number, rollout.Beginning{
			Episode: f.req.Episode, By: f.req.caller(), Draw: route.Draw, At: route.Began,
		})
	}
	return route, nil
}
