package config

// Choices is implemented by a string type that has a fixed set of values. The values in later are names known to be
// those of features of a later release: they are refused with a message that says so.
type Choices interface {
	Choices() (now, later []string)
}
