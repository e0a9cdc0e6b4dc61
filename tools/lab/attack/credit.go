package main

import "sync"

// credit is how much a server lets one connection send, in bytes, over all its calls.
type credit struct {
	mu   sync.Mutex
	left int           // guarded by mu
	more chan struct{} // holds one word that there is more
}

func newCredit() *credit {
	return &credit{left: 1<<16 - 1, more: make(chan struct{}, 1)}
}

func (c *credit) add(n int) {
	c.mu.Lock()
	c.left += n
	c.mu.Unlock()
	select {
	case c.more <- struct{}{}:
	default:
	}
}

// take waits until there is credit for n bytes. It reports whether that came before the connection or the attack ended.
func (c *credit) take(n int, gone, done <-chan struct{}) bool {
	for {
		c.mu.Lock()
		enough := c.left >= n
		if enough {
			c.left -= n
		}
		c.mu.Unlock()
		if enough {
			return true
		}
		select {
		case <-c.more:
		case <-gone:
			return false
		case <-done:
			return false
		}
	}
}
