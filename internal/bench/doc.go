// Package bench measures the whole house from the outside: its tests and benchmarks are all it contains.
package bench
