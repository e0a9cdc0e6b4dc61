// Package certs gives the listeners of a server their certificates, and the commands that call a server theirs.
//
// A [Keeper] hands each handshake the certificates of that moment by crypto/tls's GetConfigForClient. That serves gRPC
// and net/http alike, one check of the files goes before the first handshake and before each replacement, and whoever
// has a connection keeps it. The certificate providers of gRPC serve gRPC alone, and replace a key and its certificate,
// or the CAs, one by one; those of advancedtls read files without a word about what is wrong with them.
//
// Sessions are never resumed: each connection proves that its caller's CA is still trusted. A connection that is kept
// outlives the CA of its caller.
package certs
