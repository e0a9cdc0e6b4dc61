// Package nvidia reads the state of NVIDIA GPUs through the driver's library, libnvidia-ml (NVML).
//
// The library is found when the program runs, never when it is linked, so that the same program serves a machine
// without a GPU. Its binding resolves each function when it is called first, and a function that is not there ends the
// process on the spot: so no function is called before the library was loaded and initialised, and none that [Source]
// did not look up. For the same reason a Return of the binding is never formatted (its Error method asks the library
// for the text), and a library that was loaded once stays loaded, since the addresses that were resolved stay too.
package nvidia
