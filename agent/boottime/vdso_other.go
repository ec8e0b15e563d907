//go:build !linux || !amd64

package boottime

import "time"

// Reader returns the function that reads the clock.
func Reader() func() time.Duration { return newSampled().Now }
