package gpu

import (
	"math/bits"
	"strings"
)

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
