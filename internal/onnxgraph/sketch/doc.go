// Package sketch reads models written as a line of text, for tests that need many small ones.
//
//	opset 11; x[N,4] s:int64[]; y = MatMul(x, <4,3>); a, _ = TopK{axis=1}(y, [2]); Relu(a), s
//
// Statements end with a semicolon: an operator set, the inputs (float where no type is given; N is the dimension of
// rows, another letter an open dimension), assignments, and at the end the outputs. Values are 7 (int64), 1.5 (float),
// [1,2] (int64), f[1,2], <4,3> (random floats of that shape), <4,3>[1,2] (those numbers, again and again), and of other
// types u8<4,3>, u8[1,2], u8(3); _ leaves an input out. Attributes stand in braces; body=(a,b:i64[])=>(e, f) is a
// graph.
package sketch
