package main

import (
	"fmt"
	"sync"
	"time"
)

// patience is how long a command may be silent before it says what it does, and how often it
// says so from then on.
const patience = 2 * time.Second

// narrate does work and meanwhile writes a line to stderr every two seconds, so that what
// takes long is seen to go on, and what is quick is silent. Only narrate's own goroutine
// calls line.
func (sh *shell) narrate(line func() string, work func() error) error {
	done := make(chan struct{})
	var narrator sync.WaitGroup
	narrator.Go(func() {
		tick := time.NewTicker(patience)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				fmt.Fprintln(sh.err, line())
			}
		}
	})
	defer narrator.Wait()
	defer close(done)
	return work()
}
