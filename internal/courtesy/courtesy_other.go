//go:build !linux

package courtesy

func set(bool) {}
