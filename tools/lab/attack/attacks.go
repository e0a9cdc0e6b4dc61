package main

import "context"

// attack is one of the ways to harm a server.
type attack struct {
	name  string
	about string
	// rate is the most operations a second, over all connections; 0: as many as there are connections.
	rate float64
	unit string // what one operation is
	// connections is how many there are; 0: as many as the run says.
	connections int
	// most is how many operations one connection does at most before it only holds what it has; 0: any number.
	most int
	// deaf connections read nothing that the server sends.
	deaf func(number int) bool
	// bare connections say nothing by themselves, not even what every client says first.
	bare bool
	// window is how much of each answer the server may send, in bytes; negative: as much as HTTP/2 allows.
	window int
	// begin prepares a connection, and returns its operation.
	begin func(l *link) (operation, error)
}

// operation is what an attack does again and again on a connection. Its writes are sent soon after.
type operation func(ctx context.Context) error

// plenty is the window of clients that read what they get.
const plenty = -1

func nobody(int) bool       { return false }
func everyOther(n int) bool { return n%2 == 1 }

var attacks = []attack{
	{
		name: "header-bombs", about: "8 MB of headers out of 8 KB, by HPACK's index; the calls are held open",
		rate: 200, unit: "calls", most: 8, deaf: nobody, window: plenty, begin: headerBombs,
	},
	{
		name: "unread-answers", about: "200 answers of 4 MB, none of which is read: windows of 0",
		rate: 100, unit: "requests", most: 4, deaf: nobody, window: 0, begin: unreadAnswers,
	},
	{
		name: "rapid-reset", about: "calls that are reset as soon as their headers are sent",
		rate: 100_000, unit: "calls", deaf: nobody, window: plenty, begin: rapidReset,
	},
	{
		name: "reset-requests", about: "whole requests, which are reset at once",
		rate: 20_000, unit: "requests", deaf: nobody, window: plenty, begin: resetRequests,
	},
	{
		name: "unread-stream", about: "requests for 4 MB each on four PredictStream, whose answers are not read",
		rate: 400, unit: "requests", deaf: nobody, window: 1 << 16, begin: unreadStream,
	},
	{
		name: "settings", about: "SETTINGS and unasked acknowledgements; every other connection reads nothing",
		rate: 300_000, unit: "frames", deaf: everyOther, window: plenty, begin: settingsFlood,
	},
	{
		name: "empty-inputs", about: "messages of 15 MB that are millions of empty inputs, outputs or numbers",
		rate: 8, unit: "messages", connections: 8, deaf: nobody, window: plenty, begin: emptyInputs,
	},
	{
		name: "continuation", about: "headers that never end: CONTINUATION frames, empty or of a small header",
		rate: 300_000, unit: "frames", deaf: nobody, window: plenty, begin: continuationFlood,
	},
	{
		name: "priority", about: "PRIORITY frames of streams that do not exist",
		rate: 300_000, unit: "frames", deaf: nobody, window: plenty, begin: priorityFlood,
	},
	{
		name: "window-update", about: "WINDOW_UPDATE frames of 1 byte, of the connection and of a call",
		rate: 300_000, unit: "frames", deaf: nobody, window: 0, begin: windowUpdateFlood,
	},
	{
		name: "empty-frames", about: "frames of unknown types, and DATA frames of 0 bytes",
		rate: 300_000, unit: "frames", deaf: nobody, window: plenty, begin: emptyFrames,
	},
	{
		name: "unknown-methods", about: "calls of methods that nobody has, each with another name",
		rate: 20_000, unit: "calls", deaf: nobody, window: plenty, begin: unknownMethods,
	},
	{
		name: "gzip-bombs", about: "messages that are 1 GiB when they are decompressed, and 1 MB before",
		rate: 16, unit: "messages", deaf: nobody, window: plenty, begin: gzipBombs,
	},
	{
		name: "idle-connections", about: "10,000 connections that say who they are, and nothing else",
		unit: "connections", connections: 10_000, deaf: nobody, window: plenty, begin: idle,
	},
	{
		name: "slow-handshakes", about: "connections without a byte, with a byte of HTTP/2's preface or of TLS's a second",
		rate: 1_000, unit: "bytes", connections: 1_000, deaf: nobody, bare: true, begin: slowHandshakes,
	},
	{
		name: "ping", about: "PING frames; every other connection reads nothing",
		rate: 300_000, unit: "frames", deaf: everyOther, window: plenty, begin: pingFlood,
	},
	{
		name: "slow-bodies", about: "64 requests on each connection, which come a byte a second",
		rate: 64 * 64, unit: "bytes", deaf: nobody, window: plenty, begin: slowBodies,
	},
	{
		name: "short-messages", about: "128 messages of 16 MiB whose last byte never comes",
		rate: 64, unit: "messages", most: 2, deaf: nobody, window: plenty, begin: shortMessages,
	},
}

func find(name string) *attack {
	for i := range attacks {
		if attacks[i].name == name {
			return &attacks[i]
		}
	}
	return nil
}

func names() []string {
	var all []string
	for _, a := range attacks {
		all = append(all, a.name)
	}
	return all
}
