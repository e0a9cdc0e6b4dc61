package sim

import "github.com/weftserve/weft/sharedsched"

// Variants returns the server's scheduler with one of its parts changed or taken out, to see the worth of each.
func Variants() []Maker {
	return []Maker{
		without("least slack first", func(v *sharedsched.Variant) { v.LeastSlack = true }),
		without("no shares", func(v *sharedsched.Variant) { v.NoShares = true }),
		without("no conflict rule", func(v *sharedsched.Variant) { v.NoConflictRule = true }),
		without("fair to all that wait", func(v *sharedsched.Variant) { v.AllDemand = true }),
		Core("one batch at a time", CoreOptions{}),
		without("none beside another", func(v *sharedsched.Variant) { v.NoBeside = true }),
		without("no window drop", func(v *sharedsched.Variant) { v.NoWindowDrop = true }),
		without("no flood rule", func(v *sharedsched.Variant) { v.NoFloodRule = true }),
		without("no admission", func(v *sharedsched.Variant) { v.NoAdmission = true }),
		without("no device cap", func(v *sharedsched.Variant) { v.NoDeviceCap = true }),
		Core("powers of two", CoreOptions{Handover: Handover, Settings: func(m *Model, s *sharedsched.Settings) {
			for size := 1; size <= m.MaxBatch; size *= 2 {
				s.AllowedBatchSizes = append(s.AllowedBatchSizes, size)
			}
		}}),
	}
}

func without(name string, vary func(*sharedsched.Variant)) Maker {
	return Core(name, CoreOptions{Handover: Handover, Config: func(c *sharedsched.Config) { vary(&c.Variant) }})
}
