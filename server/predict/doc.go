// Package predict takes a request for a prediction all the way, whatever protocol it came by.
package predict
