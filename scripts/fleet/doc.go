// Package fleet checks what a fleet is watched with, deploy/, against the metrics that a server has.
//
// It is a module of its own, so that the parser of Prometheus' language is none of the server's libraries.
package fleet
