//go:build !linux

package main

import "errors"

var errLinux = errors.New("this program binds processes to processors and reads /proc; run it on Linux")

func ownCPUs() ([]int, error) { return nil, errLinux }

func onCPUs([]int, func() error) error { return errLinux }
