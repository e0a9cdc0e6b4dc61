// Package doorkeeper says of each call who makes it, whether they may, and what it takes of their quotas. It joins what
// callers prove (package identity) with what the access file grants them (package access).
package doorkeeper
