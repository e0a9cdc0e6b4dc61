package app

import (
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == workerCommand { // the test binary is the program whose servers start workers
		if err := Work(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	status := m.Run()
	os.RemoveAll(driverFolder)
	os.Exit(status)
}
