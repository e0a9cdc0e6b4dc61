package main

import (
	"fmt"
	"math/rand/v2"
)

// options are the flags.
type options struct {
	Weft        string `default:"bin/weft" type:"existingfile" help:"The Weft program."`
	Executions  int64  `default:"1000000" help:"How many messages, header blocks and frames are sent; a batch is always sent whole."`
	Seed        uint64 `help:"Send what this seed made before; 0 draws one."`
	Batch       int64  `default:"-1" help:"Send only the batch of this number, such as one that a failure names."`
	Connections int    `default:"16" help:"Connections at a time."`
	Admin       bool   `default:"true" negatable:"" help:"Call AdminService too."`
	Names       bool   `help:"Send calls that are in order, but for names, ids and tokens that are new in each, while the live page is watched and one request in a hundred is traced."`
}

// Validate is called by the parser of the command line.
func (o *options) Validate() error {
	if o.Executions < 1 {
		return fmt.Errorf("--executions %d: expected 1 or more", o.Executions)
	}
	if o.Connections < 1 {
		return fmt.Errorf("--connections %d: expected 1 or more", o.Connections)
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	return nil
}
