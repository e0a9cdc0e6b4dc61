package routing

import "github.com/weftserve/weft/runtime/catalog"

// shadow is a ready version in the shadow.
type shadow struct {
	catalog.Shadow

	// alone holds the shadow only, for the requests that it is the only one of. Immutable.
	alone []catalog.Shadow
}

func newShadows(m *catalog.Model) []shadow {
	if m.Traffic == nil {
		return nil
	}
	var shadows []shadow
	for i, s := range m.Traffic.Shadow {
		if readyVersion(m, s.Version) != nil {
			shadows = append(shadows, shadow{Shadow: s, alone: m.Traffic.Shadow[i : i+1 : i+1]})
		}
	}
	return shadows
}

// takes reports whether the shadow is shown requests that have the key.
func (s *shadow) takes(key uint64) bool {
	return uniform(join(join(key, shadowDomain), uint64(s.Version))) < s.Sample
}

// shadowsOf returns the shadows of a request that the numbered version answers. They may be those of the table itself.
func (e *entry) shadowsOf(q *Request, answering int64) []catalog.Shadow {
	var picked []catalog.Shadow
	for i := range e.shadows {
		s := &e.shadows[i]
		if s.Version == answering {
			continue
		}
		key := e.episodeKey(q)
		if s.PerRequest && q.Episode != "" {
			// Together with the episode, since request ids need only be unique where they are sent.
			key = join(key, q.ownHash())
		}
		switch {
		case !s.takes(key):
		case picked == nil:
			picked = s.alone
		default:
			picked = append(picked, s.Shadow)
		}
	}
	return picked
}
