package engine

import "time"

// Stats are the counters and facts that a session reports about itself. A known fact stays known while the session is
// open, and counts do not fall.
type Stats struct {
	Graphs  Graphs
	Memory  Memory
	Process Process
}

// Graphs counts a session's runs by how they were executed, since it was opened.
type Graphs struct {
	// Known is false for an engine that does not capture CUDA graphs; the rest is then 0.
	Known bool
	// Replayed counts the runs that were answered by a captured CUDA graph alone, and Eager the other runs that were
	// answered.
	Replayed, Eager uint64
	// Failures counts shapes that run without a graph although one was to be captured, and one more when the session
	// has given graphs up as a whole.
	Failures uint64
}

// Plus returns the sum of two counts.
func (g Graphs) Plus(other Graphs) Graphs {
	return Graphs{
		Known:    g.Known || other.Known,
		Replayed: g.Replayed + other.Replayed,
		Eager:    g.Eager + other.Eager,
		Failures: g.Failures + other.Failures,
	}
}

// Memory is a session's part of its device's memory, as of its latest runs.
type Memory struct {
	// Known is false for an engine that does not know; the rest is then 0.
	Known bool
	// Peak is the most bytes that runs and the weights ever occupied at once. It takes in a run with larger inputs
	// than any before as soon as that has ended; other runs at the latest with one that ends a second later.
	Peak int64
	// Held is how many bytes the session holds on to.
	Held int64
}

// Process is the state of the process in which a session's runs are made. It is zero where that is the caller's own.
type Process struct {
	// Deaths is how often it ended while the session was open, whatever the reason. Each time another one is started.
	Deaths uint64
	// Last is when it ended the latest time, and Cause is how; zero and "" if it never did.
	Last  time.Time
	Cause string
	// Down is since when no run can begin, because the next process is still being started, or because processes die soon
	// after their start, so that runs do not get through; zero: runs can begin.
	Down time.Time
}

// Plus returns the deaths of two processes. Down is not among them.
func (p Process) Plus(other Process) Process {
	sum := Process{Deaths: p.Deaths + other.Deaths, Last: p.Last, Cause: p.Cause}
	if other.Last.After(p.Last) {
		sum.Last, sum.Cause = other.Last, other.Cause
	}
	return sum
}
