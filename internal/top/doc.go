// Package top shows a running server at a terminal: `weft top`.
//
// A source gives what a server does (weft.v1.Activity), as it happens. A history keeps a bounded part of it. A page is
// drawn from the history into a grid of cells: the weave, which shows who has the device when, and a table of the
// versions. The screen holds the pages together, and is the model of the terminal library. The report is the same
// table as text or JSON, for those who look once.
package top
