package record

import "time"

// Header holds the settings by which a file was recorded.
type Header struct {
	// Started is when the recording began of which the file is a part: it tells the recordings of one directory apart.
	Started time.Time `json:"started"`
	// Created is when the file was begun.
	Created time.Time `json:"created"`
	Inputs  Inputs    `json:"inputs"`
	// Sample is the part of the episodes, or of requests without one, that was to be recorded: above 0 up to 1.
	Sample float64 `json:"sample"`
	// Missed counts the entries that could not be recorded between Started and Created.
	Missed int64 `json:"missed,omitempty"`
}
