package rls

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestPatienceEndsBeforeTheRequestDoes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ left, want time.Duration }{
		"no deadline":         {0, 15 * time.Millisecond},
		"a long deadline":     {time.Second, 15 * time.Millisecond},
		"that of Envoy":       {18 * time.Millisecond, 18*time.Millisecond - travel},
		"less than the way":   {travel / 2, leastPatience},
		"shorter than any":    {leastPatience / 2, leastPatience / 2},
		"nothing but the way": {travel + 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, began := t.Context(), time.Now()
				if c.left > 0 {
					var undo context.CancelFunc
					ctx, undo = context.WithTimeout(ctx, c.left)
					defer undo()
				}
				p := newPatient(ctx, began, Patience)
				defer p.stop()
				if p.Err() != nil {
					t.Fatal("over at once:", p.Err())
				}
				<-p.Done()
				if took := time.Since(began); took != c.want || !errors.Is(p.Err(), context.DeadlineExceeded) {
					t.Errorf("over after %s with %v, want %s", took, p.Err(), c.want)
				}
			})
		})
	}
}

func TestPatienceEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, hangUp := context.WithCancel(t.Context())
		waits, idle := newPatient(ctx, time.Now(), Patience), newPatient(ctx, time.Now(), Patience)
		over := waits.Done()
		hangUp()
		<-over
		if !errors.Is(waits.Err(), context.Canceled) || !errors.Is(idle.Err(), context.Canceled) {
			t.Errorf("ended with %v and %v", waits.Err(), idle.Err())
		}
		waits.stop()
		idle.stop()
	})
}

// Whoever still holds it when the request is answered finds that it is over, waited for or not.
func TestPatienceEndsWithTheAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		waits, idle := newPatient(t.Context(), time.Now(), Patience), newPatient(t.Context(), time.Now(), Patience)
		over := waits.Done()
		for _, p := range []*patient{waits, idle} {
			p.stop()
			<-p.Done()
			if !errors.Is(p.Err(), context.Canceled) {
				t.Errorf("ended with %v", p.Err())
			}
		}
		<-over
	})
}
