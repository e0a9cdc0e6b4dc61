// Package bench measures the whole house from the outside: it contains only tests and benchmarks.
package bench
