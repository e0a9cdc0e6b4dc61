// Package proof decides whether the rows of different requests to a model may share executions.
//
// Decide finds out along which dimensions rows are joined, from the model and its manifest. Prove then makes a Runner
// run made-up rows, alone and in batches, and compares the results, unless the model's graph proves that its rows are
// independent. A Value is proven in the same way on rows of requests. Seen compares rows of live batches with their
// results alone. The package runs nothing by itself, starts no goroutine and takes no lock.
package proof
