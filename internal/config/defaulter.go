package config

// Defaulter is implemented by (a pointer to) the element type of a list or map whose absent keys are not zero.
// SetDefaults is called on each new element, before the keys that the file gives are read over it.
type Defaulter interface {
	SetDefaults()
}
