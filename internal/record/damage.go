package record

import (
	"errors"
	"fmt"
)

var (
	errMagic    = errors.New("it is no recording of Weft; expected a file that `weft serve --record` wrote")
	errTorn     = errors.New("the file ends within an entry: its writer was cut off, or is still writing")
	errChecksum = errors.New("the checksum of an entry is wrong")
	errGone     = errors.New(
		"it was deleted since the files were listed, as a server that records into the folder does when they " +
			"reach its record-limit; copy what is to be kept to another folder")
)

// DamageError says from where on a file could not be read.
type DamageError struct {
	File   string
	Offset int64 // bytes
	Err    error
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s: left out from byte %d on: %v", e.File, e.Offset, e.Err)
}

func (e *DamageError) Unwrap() error { return e.Err }
