package explore

import (
	"fmt"
	"os"
	"strconv"
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
	b := &w.Budget
	fmt.Sscan(os.Getenv("B"), &b.Takes, &b.Losses, &b.Repeats, &b.Lates, &b.Delays, &b.Crashes, &b.Cuts, &b.Unknowns, &b.Setbacks, &w.Boundary, &w.Horizon)
	most, _ := strconv.Atoi(os.Getenv("MOST"))
	began := time.Now()
	f, err := Explore(t.Context(), w, max(most, 100000), func(f Found) {
		if os.Getenv("V") != "" {
			t.Logf("%d: %d states %d transitions", f.Depth, f.States, f.Transitions)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%v: %+v in %v", w.Budget, f, time.Since(began))
	for _, l := range f.Path {
		t.Log(l)
	}
}
