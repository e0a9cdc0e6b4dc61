//go:build linux

package worker

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Supported returns why this system cannot have workers, or nil.
func Supported() error {
	file, page, err := share("weft probe", pageBytes)
	if err != nil {
		return fmt.Errorf("it has no sealed shared memory (%w)", err)
	}
	_ = unix.Munmap(page)
	_ = unix.Close(file)
	if _, err := os.Stat(self); err != nil {
		return fmt.Errorf("it has no %s by which this program can be started again (%w)", self, err)
	}
	return nil
}
