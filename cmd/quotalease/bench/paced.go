package bench

import (
	"context"
	"errors"
	"sync"
	"time"
)

// timekeeper runs what has to be in time, with the means to pause.
type timekeeper func(do func(pause func(time.Duration)))

// takePaced makes calls at a constant pace for a span, whether those before them were answered or
// not, and times each from the moment at which it was to begin: a server that makes its callers
// wait does not thereby get fewer of them.
func (m meter) takePaced(ctx context.Context, o *opened, span time.Duration, keep timekeeper) (Sample, error) {
	before, err := m.used()
	if err != nil {
		return Sample{}, err
	}
	calls := max(1, int(int64(o.pace)*int64(span)/int64(time.Second)))
	lasted, failed := make([]time.Duration, calls), make([]error, o.workers)
	due := make(chan int, calls) // never full: the pace does not depend on who is free
	began := m.now()
	at := func(i int) time.Time { return began.Add(time.Duration(i) * time.Second / time.Duration(o.pace)) }
	var wg sync.WaitGroup
	for worker := range o.workers {
		wg.Go(func() {
			for i := range due {
				if err := o.do(ctx, worker); err != nil {
					failed[worker] = err
					return
				}
				lasted[i] = m.now().Sub(at(i))
			}
		})
	}
	keep(func(pause func(time.Duration)) {
		for i := range calls {
			for wait := at(i).Sub(m.now()); wait > 0; wait = at(i).Sub(m.now()) {
				pause(wait)
			}
			due <- i
		}
	})
	close(due)
	wg.Wait()
	took := m.now().Sub(began)
	after, err := m.used()
	if err := errors.Join(append(failed, err)...); err != nil {
		return Sample{}, err
	}
	return sampleOf(lasted, o.per, took, after-before), nil
}
