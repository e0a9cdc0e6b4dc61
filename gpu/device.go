package gpu

// Device is a GPU that work runs on, or a part of one.
type Device struct {
	Name    string // as schedulers, logs and metrics call it, such as cuda:0
	Ordinal int    // by which CUDA knows it in this process
	UUID    string // by which the driver knows it
	Product string // such as NVIDIA H100 80GB HBM3
	Bus     string // its place in the machine, such as 0000:3b:00
	// Part: it is an instance of a GPU that was divided (MIG). Clock, power, temperature and errors are those of the
	// whole.
	Part bool
}
