// Package protect bounds what one caller can cost everybody else: memory, processor time, and places.
//
// gRPC bounds the number of calls of a connection and the size of a message. It does not bound how often calls are
// reset, how many frames come that ask for nothing, nor how much is held for a caller that reads no answers or never
// ends a request. A connection of this package sees each frame as it passes, above TLS and without keeping any, keeps
// an account of what the server holds for it, and ends it when it exceeds a limit.
//
// # What a connection holds
//
// The account of a connection has the bytes that came and were not read by a handler yet, the answers that were not
// written yet, and for each running handler its stack and headers. All accounts together are bounded (Config.MaxHeld).
// When they exceed that, the connection that holds the most goes, of those whose calls make no progress first.
// Connections of HTTP/1 have accounts as well, of what handlers read and write. They have no places, so that nobody can
// take them all: one more is let in always.
//
// # What a connection may do
//
// Token buckets (Turner, New directions in communications, 1986) bound what is no work: frames that carry nothing
// (settings, pings, priorities, window updates, empty or tiny data, unknown frames), resets of calls that were not
// answered, and calls that are refused for what they ask or who asks. They are refilled slowly by time, and by each
// call and answer: a caller that is served much may also say, reset and mistake much. Another limit is time: what a
// caller has begun to send or was sent must go on at some speed. The numbers are in policy.go.
//
// # How it ends
//
// The caller is sent a GOAWAY that says why, if a frame is not just being written; then the connection is closed. One
// that resets or is refused too much only gets the GOAWAY, and what it sends is read late, while its open calls go on,
// since a caller whose calls all ran out of time looks the same: a client then connects again, and loses nothing.
//
// # Calls without capacity
//
// A request that the scheduler refuses has already been read, decoded and handed over. In overload that takes the
// processor from the requests that it accepts. To refuse a call by its header takes a quarter to a half less
// (Throttle). What a header does not say, the model above all, is taken from the requests that the connection brought
// lately.
//
// # Messages that grow
//
// A part of two bytes may become an object of hundreds. Unmarshal refuses messages that would take far more memory once
// decoded than they have bytes, and large ones take Turns.
package protect
