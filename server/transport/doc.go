// Package transport receives calls by gRPC, for every service alike: limits, keepalive, messages that are read here so
// that a broken one gets an error of the house, and panics that end one call only.
package transport
