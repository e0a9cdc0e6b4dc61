// Package gpu describes GPUs and their state, on any machine: how fast a GPU runs, which causes hold it back, how much
// of its memory is left, and the share of its time that other processes use.
//
// A [Sampler] asks a [Source] in one goroutine of its own, since a driver may be slow, and publishes the answers
// through an atomic pointer: a dispatcher of work reads the latest [Sample] and never waits. Every reading may fail. A
// value that the device does not have is asked for once; one that fails is missing until it is back; a device that
// fails altogether is left alone for a growing while; and a sample that has become too old says so. Each of these is
// counted, see [Sampler.FallBacks].
package gpu

import (
	"errors"
	"math/bits"
	"strings"
)

// Source knows the state of GPUs, as a driver does. One goroutine asks at a time.
type Source interface {
	// Read fills in one quantity of the device, which is numbered by its place in [Config.Devices], and marks it as
	// known in s; or as not known, where there is just nothing to say. It may block for as long as the driver does.
	//
	// An error leaves s as it was. It wraps ErrNotSupported if the device or its driver will never know the quantity,
	// ErrLost if the device is gone, and else says why it failed this time.
	Read(device int, q Quantity, s *Sample) error
}

var (
	// ErrNotSupported marks a quantity that is unknown for good.
	ErrNotSupported = errors.New("the device or its driver does not tell this")
	// ErrLost marks a device that does not answer any more: it fell off the bus, or must be reset.
	ErrLost = errors.New("the GPU is lost")
)

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

// Quantity is something that a GPU can be asked for, or a set of such: each is one bit.
type Quantity uint16

// Each quantity, with the fields of a Sample that it fills in; together AllQuantities.
const (
	Clock        Quantity = 1 << iota // Clock
	EventReasons                      // Reasons
	Utilisation                       // Utilisation
	Memory                            // MemoryTotal, MemoryUsed, MemoryFree
	MaxClock                          // MaxClock
	Power                             // Power
	PowerLimit                        // PowerLimit
	Temperature                       // Temperature
	ECC                               // ECC
	XIDs                              // XIDs, LastXID
	CoTenants                         // CoTenant

	AllQuantities = CoTenants<<1 - 1
)

var quantityNames = [...]string{
	"clock", "event_reasons", "utilisation", "memory", "max_clock", "power", "power_limit", "temperature", "ecc",
	"xids", "co_tenants",
}

// String joins the names of the set with commas.
func (q Quantity) String() string {
	var names []string
	for i, name := range quantityNames {
		if q&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// place is the position of the bit of a single quantity.
func (q Quantity) place() int { return bits.TrailingZeros16(uint16(q)) }
