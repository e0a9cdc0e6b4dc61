// Package poison proves with the real engine that a model which kills, hangs or floods its process harms nobody else.
//
// It has tests only. A poison is a model and a request for it that does one of these (testdata/poisons.txt).
package poison
