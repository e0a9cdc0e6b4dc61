package placement

// DeviceID names one incarnation of a device: a device that comes back after it was lost has another.
type DeviceID struct {
	Name        string
	Incarnation int
}

// Site is a device that may run a version.
type Site struct {
	Device string
	// Rank is 0 for the devices that the version prefers. A higher rank is taken only if nothing of a lower one can be.
	Rank int
}

// Rank returns the rank of a device among the sites; 0, the best, if it is not one of them.
func Rank(device string, sites []Site) int {
	for _, s := range sites {
		if s.Device == device {
			return s.Rank
		}
	}
	return 0
}
