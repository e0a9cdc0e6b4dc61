package main

import "github.com/weftserve/weft/internal/app"

// workerCommand is `weft worker`, as which a server starts this program to run models in another process.
type workerCommand struct {
	Library string `arg:"" help:"The ONNX Runtime shared library."`
}

// Run runs models until the server is done, or dead.
func (c *workerCommand) Run() error { return app.Work(c.Library) }
