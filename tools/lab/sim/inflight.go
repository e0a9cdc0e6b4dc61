package sim

import (
	"time"

	"github.com/weftserve/weft/sharedsched"
)

// Handover is that of the server's GPUs.
const Handover = time.Millisecond

// InFlight returns the server's scheduler with one batch in flight and with two, on devices on which two gain nothing,
// some work, or the time in which one of them copies. With two the other lane takes a batch at once, or by the handover
// of the server's GPUs.
func InFlight() []Maker {
	one := Core("one at a time", CoreOptions{})
	one.Copying = 0.02 // changes nothing there: a batch takes as long
	all := []Maker{one}
	for _, device := range []struct {
		name             string
		overlap, copying float64
	}{{"two gain nothing", 1, 0}, {"two do 10 % more", 1.1, 0}, {"a fiftieth is copying", 1, 0.02}} {
		for _, m := range []Maker{
			Core(device.name+": two at once", CoreOptions{Config: func(c *sharedsched.Config) { c.Variant.NoKeptLane = true }}),
			Core(device.name+": handed over", CoreOptions{Handover: Handover}),
		} {
			m.Lanes = func(int) int { return 2 }
			m.Overlap, m.Copying = device.overlap, device.copying
			all = append(all, m)
		}
	}
	return all
}
