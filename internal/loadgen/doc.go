// Package loadgen puts load on a server and measures how it answers.
//
// A stream is requests of one kind. In an open loop its schedule is fixed before the run, and each latency counts from
// the moment at which the request was due: a server that stalls cannot keep requests from being measured. In a closed
// loop a number of callers each wait for the answer before they ask again.
//
// runner sends the requests of all streams, each load has one stream with its schedule, its requests and its tally. A
// Report is made of the tallies once the run is over.
package loadgen
