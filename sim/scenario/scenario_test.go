package scenario

import (
	"testing"
)

func run1(t *testing.T, name string, set ...Param) *Report {
	t.Helper()
	s, err := Builtin(name, set...)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), s, &Progress{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTry(t *testing.T) {
	r := run1(t, "fleet-512").Results[0]
	t.Logf("%+v", r.Figures())
	t.Log(r.Denied, r.Demands)
	for _, w := range r.Windows[:5] {
		t.Logf("%+v", *w)
	}
}
