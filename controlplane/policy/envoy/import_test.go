package envoy

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger/quota"
)

var update = flag.Bool("update", false, "write the golden files anew")

// bounded is what most tests import with.
var bounded = Options{Class: quota.Bounded}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run go test -update to write it)", err)
	}
	if got != string(want) {
		t.Errorf("%s differs\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}

// example reads one of the example files, named without its folder.
func example(t testing.TB, name string) policy.File {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "examples", name))
	if err != nil {
		t.Fatal(err)
	}
	return policy.File{Name: name, Text: text}
}

// examples are the names of all example files.
func examples(t testing.TB) (names []string) {
	t.Helper()
	paths, err := filepath.Glob("testdata/examples/*.yaml")
	if err != nil || len(paths) < 10 {
		t.Fatalf("%d examples, %v", len(paths), err)
	}
	for _, path := range paths {
		names = append(names, filepath.Base(path))
	}
	return names
}

func mustImport(t *testing.T, opt Options, files ...policy.File) *Imported {
	t.Helper()
	im, err := Import(files, opt)
	if err != nil {
		t.Fatal(err)
	}
	return im
}

// shown is what a user reads: the policy, and the notes behind it.
func shown(im *Imported) string {
	return string(im.Text) + "--- notes\n" + policy.Faults(im.Notes).Error() + "\n"
}

// TestR4_2PublishedExamplesImport covers what the README and the tests of Envoy's rate limit
// service show, and what Envoy's own actions send.
func TestR4_2PublishedExamplesImport(t *testing.T) {
	t.Parallel()
	for _, name := range examples(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			im := mustImport(t, bounded, example(t, name))
			golden(t, "testdata/"+strings.TrimSuffix(name, ".yaml")+".golden", shown(im))
		})
	}
}

// TestR4_2WorkedNumbers is the row's own: messaging/marketing 5 a day, auth/login 5 a minute.
func TestR4_2WorkedNumbers(t *testing.T) {
	t.Parallel()
	im := mustImport(t, bounded, example(t, "messaging.yaml"), example(t, "auth.yaml"))
	golden(t, "testdata/worked.golden", shown(im))
	if im.Dimensions != 3 || im.Descriptors != 3 || len(im.Notes) != 0 {
		t.Errorf("%d dimensions, %d descriptors, notes %v", im.Dimensions, im.Descriptors, im.Notes)
	}
}

func TestClassAndOvershootAreAsAsked(t *testing.T) {
	t.Parallel()
	im := mustImport(t, Options{Class: quota.Hard, Overshoot: "2.5%"}, example(t, "auth.yaml"))
	if !strings.Contains(string(im.Text), "class: hard\n    overshoot: 2.5%\n") {
		t.Errorf("got\n%s", im.Text)
	}
	for _, opt := range []Options{
		{Class: quota.Exact, Overshoot: "1%"},
		{Class: quota.Bounded, Overshoot: "12"},
		{Class: quota.Bounded, Overshoot: "1%\nclass: exact"},
	} {
		if im, err := Import([]policy.File{example(t, "auth.yaml")}, opt); err == nil {
			t.Errorf("%+v was accepted:\n%s", opt, im.Text)
		}
	}
}

func TestDomainsOfSeveralFilesMergeIfAsked(t *testing.T) {
	t.Parallel()
	one := policy.File{Name: "1.yaml", Text: []byte("domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1}}]\n")}
	two := policy.File{Name: "2.yaml", Text: []byte("domain: d\ndescriptors: [{key: b, rate_limit: {unit: day, requests_per_unit: 2}}]\n")}
	if _, err := Import([]policy.File{one, two}, bounded); err == nil ||
		err.Error() != `2.yaml:1: domain: domain "d" is given twice; first at 1.yaml:1; allowed: one file for a domain, unless domains are merged` {
		t.Errorf("got %v", err)
	}
	im := mustImport(t, Options{Class: quota.Bounded, MergeDomains: true}, one, two)
	if im.Dimensions != 2 {
		t.Errorf("got\n%s", im.Text)
	}
	if _, err := Import([]policy.File{one, one}, Options{MergeDomains: true}); err == nil || !strings.Contains(err.Error(), "d.a is given twice; first at 1.yaml:2") {
		t.Errorf("got %v", err)
	}
}
