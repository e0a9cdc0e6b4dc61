//go:build !linux

package threads

func yield(bool) {}
