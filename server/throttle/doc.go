// Package throttle refuses calls by their headers on connections most of whose requests there is no capacity for.
//
// A request that the scheduler refuses has been read, decoded and handed over before, which in overload takes the
// processor from those that it accepts. To refuse a call by its header takes a quarter to a half less. What a header
// does not say, the model above all, is taken from the requests that the connection brought lately: see history.
package throttle
