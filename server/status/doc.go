// Package status is the error table of the API: which error of the house is which gRPC code, with which reason and
// details.
//
// No other package knows gRPC's codes. They are the names that metrics, recordings and rollouts use for the requests of
// every protocol.
package status
