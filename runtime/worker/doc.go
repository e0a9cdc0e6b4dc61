// Package worker runs an engine in a process of its own, so that a model that crashes, hangs or eats memory ends that
// process and not the server.
//
// A Worker supervises one process: it starts it, opens sessions in it, and starts another, with the same sessions, when
// it dies. A session is an engine.Session whose runs happen there. The process is this program with other arguments;
// Serve is its main function. It knows no request, no scheduler and no caller.
//
// Control messages (message.go) travel on a socket pair. Batches lie in shared memory (slab.go), which the server
// assembles into and scatters from without a further copy. One run at a time uses a lane (lane.go): a page of shared
// memory that says which tensors lie where, and a bell (bell.go) for each direction. Either process may die at any
// byte: the server checks every answer, and a dead process wakes every lane.
package worker
