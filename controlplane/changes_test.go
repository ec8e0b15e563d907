package controlplane

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestATroubleIsLoggedWhenItChanges(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	now := time.Unix(0, 0)
	c := changes{log: slog.New(slog.NewTextHandler(&log, nil)), now: func() time.Time { return now }}
	lines := func() int { return strings.Count(log.String(), "\n") }
	c.note("sweep", nil)
	if lines() != 0 {
		t.Fatalf("nothing happened, and it was logged:\n%s", log.String())
	}
	for range 100 {
		c.note("sweep", errors.New("down"))
		now = now.Add(100 * time.Millisecond)
	}
	if lines() != 1 {
		t.Errorf("ten seconds of one trouble took %d lines", lines())
	}
	c.note("sweep", errors.New("read only"))
	now = now.Add(sayAgain)
	c.note("sweep", errors.New("read only"))
	c.note("sweep", nil)
	if lines() != 4 || !strings.Contains(log.String(), "unlogged=99") || !strings.Contains(log.String(), "done again: sweep") {
		t.Errorf("another trouble, a minute of it and its end:\n%s", log.String())
	}
}
