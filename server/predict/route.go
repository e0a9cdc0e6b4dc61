package predict

import "github.com/weftserve/weft/server/routing"

// route chooses the version that answers a request, and says so in the result.
func (p *Pipeline) route(f *flight) (routing.Route, error) {
	route, err := p.router.Route(p.models.Snapshot(), routing.Request{
		Model: f.req.Model, Choice: f.req.Choice, Episode: f.req.Episode, RequestID: f.req.ID,
		Serial: f.observed.number,
	})
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
		p.config.Rollouts.Begun(v.Model, v.Number, f.req.Episode, route.Draw, route.Began)
	}
	return route, nil
}
