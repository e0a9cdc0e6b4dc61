package sim

// shepherd models Flex, the online serving algorithm of Shepherd, without its preemption: when the device is free it executes
// the largest batch that meets all its deadlines, over all models; on equal size the more urgent one.
//
// Simplified: a running batch is never killed for one lambda times as large, which a server that hands whole batches to a runtime
// cannot do; the grouping of streams (Herd) has nothing to decide on one device.
//
// Source: Zhang et al., "SHEPHERD: Serving DNNs in the Wild", NSDI 2023; read against tools/shepherd/flex_scheduler.cpp in
// github.com/abcdabcd987/nexuslb, which notes two errors of the published pseudo-code.
type shepherd struct{ lines }

// Next implements Policy.
func (p *shepherd) Next(now Time, _ int) *Batch {
	return p.pick(now, (*lines).fromHead, func(a, b window) bool { return a.rows > b.rows || a.rows == b.rows && a.due < b.due })
}
