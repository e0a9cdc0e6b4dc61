// Package predict takes a request for a prediction from its message to its answer, for every protocol: it knows none.
//
// A protocol is a codec of its own: a handler makes a [Request] of each message and calls [Pipeline.Predict], which
// calls the handler's [Codec] back twice. The inputs can be read only when the version is known whose signature says
// what they must be, and the answer must be written while the request can still fail. In between the pipeline goes
// through these steps:
//
//	gate     is there room, and does the server not drain
//	route    which version answers, and which are in its shadow
//	decode   the inputs and the wanted outputs, checked against the version's signature
//	run      the models execute the call
//	judge    the breaker hears how the version did
//	mirror   the versions in the shadow are offered the request
//	encode   the codec writes the answer
//
// However a request ends, by an answer, an error or a panic, in this order: the log gets the parts of an error that its
// caller does not get, a rollout and the recorder are notified of the request, and the observer counts it.
package predict
