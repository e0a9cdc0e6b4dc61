package app

import (
	"net"
	"net/http"
	"testing"
)

// closing is a connection that notes that it was closed.
type closing struct {
	net.Conn

	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}

// TestPlaces: a connection that becomes idle ends while more than half of the places are taken, and only then.
func TestPlaces(t *testing.T) {
	var p places
	idle := &closing{}
	for range httpConnections / 2 {
		p.follow(nil, http.StateNew)
	}
	if p.follow(idle, http.StateIdle); idle.closed {
		t.Error("closed although half of the places are free")
	}
	p.follow(nil, http.StateNew)
	if p.follow(idle, http.StateActive); idle.closed {
		t.Error("closed although it is in use")
	}
	if p.follow(idle, http.StateIdle); !idle.closed {
		t.Error("kept although it takes the place of others")
	}
	idle.closed = false
	p.follow(nil, http.StateClosed)
	if p.follow(idle, http.StateIdle); idle.closed {
		t.Error("closed although a place was given back")
	}
}
