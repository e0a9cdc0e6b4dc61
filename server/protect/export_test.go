package protect

// Processors has messages decoded as with so many processors, until the function that it returns is called.
func Processors(n int) (undo func()) {
	before := turns
	turns = make(chan struct{}, n)
	return func() { turns = before }
}
