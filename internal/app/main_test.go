package app

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	status := m.Run()
	os.RemoveAll(driverFolder)
	os.Exit(status)
}
