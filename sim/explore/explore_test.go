package explore

import (
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

func small() *World {
	return &World{Name: "small", Agents: 2, Class: quota.Hard, Limit: 3, Overshoot: `"100%"`, CutTo: 1, TTL: 4, Grace: 2, Boundary: 5, Horizon: 7, Patience: 3,
		Budget: Budget{Takes: 2}}
}

func TestSmall(t *testing.T) {
	w := small()
	began := time.Now()
	f, err := Explore(t.Context(), w, 2_000_000, func(f Found) { t.Logf("%d: %d states %d transitions", f.Depth, f.States, f.Transitions) })
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v in %v", f, time.Since(began))
	for _, l := range f.Path {
		t.Log(l)
	}
}
