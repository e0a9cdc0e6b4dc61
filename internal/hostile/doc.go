// Package hostile makes what a hostile caller sends: strings, messages, header blocks and frames, all from seeds, and
// a connection that sends them as they are.
package hostile
