package engine

import "errors"

// SignalOf returns the signal that ended the process of a run, such as SIGSEGV, if the error or one that it wraps has a
// method EndedBy that says so; "" if the process ended by itself, or was ended because the run took too long.
func SignalOf(err error) string {
	type death interface {
		error
		EndedBy() string
	}
	if d, is := errors.AsType[death](err); is {
		return d.EndedBy()
	}
	return ""
}
