package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestExhaustiveExploresAWorldToItsEnd(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	sh := &shell{out: &out, err: &bytes.Buffer{}, now: time.Now, format: formatTable}
	if err := sh.exploreWorlds(t.Context(), exhaustiveFlags{on: true, world: "repeat", most: 1_000_000}); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{"2 agents", "limit 3", "1 repeats", "states", "no new state appears"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, out.String())
		}
	}
}

func TestExhaustiveSaysWhenItGaveUp(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	sh := &shell{out: &out, err: &bytes.Buffer{}, now: time.Now, format: formatTable}
	err := sh.exploreWorlds(t.Context(), exhaustiveFlags{on: true, world: "repeat", most: 10})
	var chosen *exitError
	if !errors.As(err, &chosen) || chosen.code != exitFound || !strings.Contains(out.String(), "given up") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestExhaustiveNamesTheWorldsThatThereAre(t *testing.T) {
	t.Parallel()
	for _, f := range []exhaustiveFlags{{on: true, world: "nowhere", most: 1}, {world: "calm", most: 1}, {on: true}} {
		if err := f.check(); err == nil || !strings.Contains(err.Error(), "--") {
			t.Errorf("%+v: %v, want a refusal that names the flag", f, err)
		}
	}
}
