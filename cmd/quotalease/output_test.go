package main

import (
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestNumbersEndAtTheRight(t *testing.T) {
	t.Parallel()
	tab := newTable(text("NAME"), number("UNITS"), text("NOTE"))
	tab.add("a", "1,000,000", "")
	tab.add("größer", "7", "b")
	var w strings.Builder
	if err := tab.write(&w); err != nil {
		t.Fatal(err)
	}
	want := "NAME        UNITS  NOTE\na       1,000,000  -\ngrößer          7  b\n"
	if w.String() != want {
		t.Errorf("got:\n%swant:\n%s", w.String(), want)
	}
}

func TestCellsCannotMoveTheCursor(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cell := printable(rapid.String().Draw(t, "cell"))
		if !utf8.ValidString(cell) || strings.ContainsAny(cell, "\x00\x1b\r\n\t") || cell == "" {
			t.Fatalf("cell %q", cell)
		}
	})
}

func TestWordsForAmounts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ got, want string }{
		{lasting(600_000), "0.6 s"},
		{lasting(4_800_000), "4.8 s"},
		{lasting(30_000_000), "30 s"},
		{lasting(90_000_000), "1m30s"},
		{lasting(250), "below 1 ms"},
		{lasting(math.MaxInt64), "2562047h47m16s"},
		{thousandths(40_000), "40"},
		{thousandths(1_234_500), "1,234.5"},
		{thousandths(7), "0.007"},
		{share(0, 10), "0 %"},
		{share(-3, 10), "0 %"},
		{share(999, 1000), "99.9 %"},
		{share(9999, 10000), "99.9 %"},
		{share(1000, 1000), "100.0 %"},
		{share(1200, 1000), "120.0 %"},
		{share(math.MaxInt64, math.MaxInt64), "100.0 %"},
		{share(math.MaxInt64, 1), "over 100 %"},
		{count(1, "lease"), "1 lease"},
		{count(1234, "lease"), "1,234 leases"},
		{printable(""), "-"},
		{printable("eu\x1b[31m"), `"eu\x1b[31m"`},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}
