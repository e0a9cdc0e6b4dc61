// Package structure proves from the graph of a model that its rows do not influence each other.
//
// A server joins the rows of different requests into one batch. That is right only if each row's answer is a function
// of that row and of the values that all rows share, whatever the values are. Runs with made-up data cannot show it: a
// parameter, a sign or a magnitude that they never try may switch to an operation that lets rows meet. So this package
// computes, operator by operator, with the dependencies of values instead of with values.
//
// # What is known of a tensor
//
// Let the batch have N rows, N being any number from 1 up, and let the engine run it without an error. Each tensor is
// one of these:
//
//   - shared: no element, and no dimension, depends on a row or on N. Its elements may be known where they are small
//     integers.
//   - rows along an axis: that dimension is A·N·B, all others do not depend on N, and the element at (a, n, b) there
//     and anywhere else is a function of row n and of shared values; the function is the same for each n and each N. A
//     and B are 1 unless it was reshaped.
//   - counts: its dimensions are shared, its elements depend on N but on no row. Shapes are computed with such tensors,
//     whose elements are known as c·N·s, where c is a number and s a product of symbols for sizes that are not known
//     and are shared.
//   - mixed: nothing of that is known, for the reason that is kept. The reason may be that values of a row are sure to
//     reach another, as in a mean over the rows. It is kept through functions and graphs of nodes: these are walked
//     with mixed values, too, and what they do is taken for done whatever chooses them, as what Where chooses is.
//
// An input is rows along the axis that the caller names, with A = B = 1, or shared; that is the definition of a batch.
// A rule states the kind of an operator's output if its inputs are as stated. Where no rule does so the output is
// mixed, and everything made of mixed is mixed. If in the end an output is shared, or rows with A = B = 1, then by
// induction over the nodes its slice n is a function of row n and of shared values only, the same in every batch, in
// that of the row alone too. That is the proof. Rounding is not part of it: an engine may add in another order in a
// larger batch.
//
// # What must be minded
//
//   - Broadcasting aligns from the right, and a dimension of 1 repeats. A shared tensor next to rows must have no
//     entry, or exactly one, along their axis: a symbol might be N, or stand for one entry only where N is 1.
//   - A symbol may be 0, and a shared integer that is no size may be negative: see regroup. A Reshape to 0 copies a
//     dimension: where that matters, and the size is one of an input, the whole graph is proven once for 0 and once for
//     more.
//   - Arithmetic of shapes may overflow, in 32 bits or 64: see elem. It is taken for granted that no tensor has 2^31
//     entries, nor a dimension of an empty one so many.
//   - Where N is 1 an operator may do something else, as Squeeze without axes does. Rules hold for N = 1 as well.
//   - A condition or a count that is shared takes the same way for all rows. If it is not known, both ways are looked
//     at, and the facts that hold for both count; where there is no such description of a value, the whole graph is
//     proven once for each way. The values that a loop hands from turn to turn are widened until another turn adds
//     nothing.
//   - Engines weight elements that do not count with zero, and zero times infinity is NaN: interpolation between rows
//     mixes them although its weights say no.
//   - An engine may treat NaN by where it lies in memory, as ONNX Runtime does where it takes the largest of numbers,
//     or casts to uint32. Texts it may lose.
//   - ONNX Runtime reduces a tensor without entries along none of the axes that count from the end.
//   - ONNX Runtime runs the functions of a model by the operator sets of the model, and takes flags other than 0 and 1
//     for the one or the other.
//   - A loop may make no turn. Its stacked results then have an unknown shape.
//   - An operator whose inputs are all shared gives shared outputs, unless it draws random numbers.
//
// The rules are compared with ONNX Runtime twice: each with graphs made for it (testdata/rules.txt), and all together
// with random graphs (TestSearch), as they are and within functions and graphs of nodes. Operator sets before the
// oldest and after the newest that they were written for are not proven.
package structure
