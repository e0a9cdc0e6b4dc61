// Package record writes requests and their answers to files, and reads them back.
//
// A [Writer] takes entries without ever making its caller wait: entries for which its bounded queue has no room are
// dropped, those for which the disk has no room are lost, and both are counted. A [Reader] gives the entries back, file
// by file.
//
// # Files
//
// A recording is a directory of files that are named for the moment they were begun, in UTC, so that names sort by
// time:
//
//	20260102T150405.000000000Z.weftrec
//
// A file begins with the eight bytes "\x89WEFTREC" and the version of the format, a uint32; numbers are little-endian.
// Frames follow, each its payload's length in bytes (uint32), the CRC-32C of length and payload (uint32), and the
// payload. The first payload is a [Header] in JSON. Every other one is an entry: the facts about the request in JSON,
// then the request and the answer as they travel, each after its length (uvarint; of the messages one more, so that 0
// stands for none):
//
//	length facts | length+1 weft.v1.PredictRequest | length+1 weft.v1.PredictResponse
//
// Requests and answers of weft.v1 are stored as they travelled, byte for byte as a replay sends them again. Those of
// another protocol are stored as the messages of weft.v1 that ask and answer the same, with raw tensors; served.go
// makes them of the pipeline's records, and is the only place that knows how.
//
// Nothing ends a file: a process that is killed leaves at most one torn frame, behind which nothing was written. A file
// that is wrong anywhere else was damaged later.
//
// # Why this format
//
// The frames could be those of protobuf's delimited messages (protodelim), or the files MCAP's. The first have no
// checksum: a frame that was damaged later could not be told from one that was torn off by the end of its writer, which
// a replay reports differently, and a damaged length would be read as the next message. A checksum of zstd around them
// does not help: its reader gives a block out before it has seen the checksum, and a torn block loses all its entries.
// The second brings both, but also an index, schemas, chunks and compression, which neither a writer that must not wait
// nor a reader that reads from end to end has a use for, and a library. Only frames with a checksum are needed, and
// they are a few lines (frame.go).
package record
