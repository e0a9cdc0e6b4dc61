package sharedsched

import (
	"maps"
	"slices"
)

// maxAccounts bounds the accounts, unless more versions are there.
const maxAccounts = 4096

// Account counts the tasks and executions of one version on one device since the start, by how they ended. It outlives
// the version, until there are maxAccounts; a version that is added again under that name goes on with it. At every
// moment Accepted is the sum of Ended and Live, Started the sum of Executions and InFlight, and Waits the sum of
// WaitsEnded and Waiting.
type Account struct {
	Name, Device string

	Accepted uint64               // tasks that were admitted
	Ended    [EndAgain + 1]uint64 // by End
	Live     int                  // tasks that wait or run

	Started    uint64                 // executions
	Executions [LostDevice + 1]uint64 // that ended, by Failure: the first one counts the executions that did not fail
	InFlight   int                    // that run
	Late       uint64                 // that ended after the limits of all their tasks: for nothing
	Reruns     uint64                 // runs of parts of failed ones

	// Core knows nothing of callers: the program that makes them wait for room in a full queue counts the waits.
	Waits      uint64                    // callers that waited
	WaitsEnded [WaitCancelled + 1]uint64 // by WaitEnd
	Waiting    int                       // that wait
}

// Failure says whether and why an execution failed, though it may have answered all requests in the end, by running
// parts of itself.
type Failure uint8

// The ways an execution fails.
const (
	// NotFailed: every part of it was answered.
	NotFailed Failure = iota
	// ModelFailed: the model or its engine failed, or panicked.
	ModelFailed
	// OutOfMemory: memory did not suffice.
	OutOfMemory
	// LostDevice: the device failed, or had failed before it began.
	LostDevice
)

// String returns done, failed, out_of_memory or device_lost.
func (f Failure) String() string {
	return [...]string{"done", "failed", "out_of_memory", "device_lost"}[f]
}

// WaitEnd says how the wait of a caller for room in a full queue ended.
type WaitEnd uint8

// The ways a wait for room ends.
const (
	// WaitAdmitted: there was room.
	WaitAdmitted WaitEnd = iota
	// WaitRefused: there will be none: the version or the server stops, or another bound is reached.
	WaitRefused
	// WaitExpired: the limit passed.
	WaitExpired
	// WaitCancelled: the caller gave up.
	WaitCancelled
)

// String returns admitted, refused, expired or cancelled.
func (e WaitEnd) String() string {
	return [...]string{"admitted", "refused", "expired", "cancelled"}[e]
}

// account returns the account of a version, a new one if there is none under its name yet.
func (c *Core) account(name, device string) *Account {
	key := [2]string{name, device}
	a := c.accounts[key]
	if a == nil {
		if len(c.accounts) >= maxAccounts {
			c.closeAccounts()
		}
		a = &Account{Name: name, Device: device}
		c.accounts[key] = a
	}
	return a
}

// closeAccounts forgets the accounts of versions that are gone, as far as nothing of theirs runs.
func (c *Core) closeAccounts() {
	used := map[*Account]bool{}
	for _, v := range c.versions {
		if v != nil {
			used[v.account] = true
		}
	}
	for _, l := range c.lanes {
		if l != nil && l.running {
			used[l.queue.version.account] = true
		}
	}
	maps.DeleteFunc(c.accounts, func(_ [2]string, a *Account) bool { return !used[a] })
}

// accountStates returns a copy of all accounts, by name and device.
func (c *Core) accountStates() []Account {
	all := make([]Account, 0, len(c.accounts))
	at := make(map[*Account]int, len(c.accounts))
	for _, key := range slices.SortedFunc(maps.Keys(c.accounts),
		func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		at[c.accounts[key]] = len(all)
		all = append(all, *c.accounts[key])
	}
	for _, v := range c.versions {
		if v != nil {
			all[at[v.account]].Live += v.live
		}
	}
	for _, l := range c.lanes {
		if l != nil && l.running {
			all[at[l.queue.version.account]].InFlight++
		}
	}
	return all
}
