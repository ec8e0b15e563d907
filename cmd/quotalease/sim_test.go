package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestSimShowsWhatItFired(t *testing.T) {
	t.Parallel()
	r := console{}.run(t, "sim", "--seeds", "3", "--events", "1500", "--workers", "2")
	r.expect(t, exitDone)
	wantText(t, "sim", r.out, "TROUBLE", "reply lost", "agent crashed", "3 seeds, ", "no promise broken")
}

func TestSimForScripts(t *testing.T) {
	t.Parallel()
	r := console{}.run(t, "sim", "--seeds", "2", "--events", "1500", "-o", "json")
	r.expect(t, exitDone)
	var v simView
	if err := json.Unmarshal([]byte(r.out), &v); err != nil {
		t.Fatalf("read %q: %v", r.out, err)
	}
	if v.Seeds != 2 || v.Events < 3000 || len(v.Broken) != 0 || len(v.Missing) != 0 || len(v.Trouble) < 30 {
		t.Errorf("got %+v", v)
	}
}

func TestSimReplaysOneSeed(t *testing.T) {
	t.Parallel()
	first := console{}.run(t, "sim", "--seed", "7", "--events", "1500")
	first.expect(t, exitDone)
	wantText(t, "sim --seed", first.out, "a1 starts as incarnation", "trouble and callers end", "no promise broken")
	if again := (console{}).run(t, "sim", "--seed", "7", "--events", "1500"); again.out != first.out {
		t.Error("the same seed shows another history")
	}
}

func TestSimNamesTheFlagAtFault(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"seeds", "events", "workers"} {
		r := console{}.run(t, "sim", "--"+flag, "0")
		r.expect(t, exitRefused)
		wantText(t, "sim", r.err, "--"+flag+": 0; allowed: 1 or more")
	}
}

func TestABrokenPromiseIsShownWithItsReplay(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	view := simView{Seeds: 1, Events: 12000, Broken: []brokenView{{
		Seed: 1234, Promise: "use is accounted for", What: "acme/hard: 3 were used", Replay: simFlags{events: 500}.again(1234),
		History: []string{"    1    0.000000s  r1 starts"},
	}}}
	if err := view.write(&out); err != nil {
		t.Fatal(err)
	}
	wantText(t, "sim", out.String(), "1 promise broken", "seed 1234: use is accounted for: acme/hard: 3 were used",
		"quotalease sim --seed 1234 --events 500", "r1 starts")
}
