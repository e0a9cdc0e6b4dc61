// Package execution turns requests into executions and their outputs into answers: it joins the rows of several
// requests in one batch, makes an engine run it, and gives each request its rows; where a run fails it finds the
// requests that are the cause, and answers the others.
//
// A Job is a request on its way through the scheduler, a Unit executes jobs: it is a session, the memory of its
// batches, and a Plan that says how rows are joined. An execution reports a Finding about the unit itself to the unit's
// Owner.
package execution
