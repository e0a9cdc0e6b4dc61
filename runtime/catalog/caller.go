package catalog

// Caller is who a request is charged to where a model's fairness is by identity.
type Caller struct {
	Name   string
	Weight float64
}
