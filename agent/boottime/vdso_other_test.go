//go:build !linux || !amd64

package boottime

import "time"

// allowed is how far a reading may be from the kernel's, where it is extrapolated.
const allowed = time.Millisecond
