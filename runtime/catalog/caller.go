package catalog

// Caller is who a request is charged to where its model's fairness is by identity; nil: nobody is known, the anonymous
// identity.
type Caller struct {
	// Name identifies the caller, and its flow on each device. It is shown to operators, and to the caller itself.
	Name string
	// Weight is the caller's part of a device in relation to the weights of other flows while that is contended: 0.001
	// to 1,000,000; zero: 1. Requests with another weight are refused with an error.
	Weight float64
}
