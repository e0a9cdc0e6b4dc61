package access

// Remembered returns how many tokens are remembered.
func (i *Issuer) Remembered() (n int) {
	for s := range i.known {
		n += len(i.known[s].of)
	}
	return n
}
