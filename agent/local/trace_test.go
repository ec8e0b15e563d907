package local

import (
	"cmp"
	"encoding/csv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// The sliding counter's error on traffic that is made here: forty clients, each of whom asks at
// random about every two seconds, with pauses, of a limit of 30 a minute.
func TestR1_8TheSlidingCountersErrorOnMadeTraffic(t *testing.T) {
	t.Parallel()
	var requests []request
	for i := range uint64(40) {
		rng := rand.New(rand.NewPCG(i, 1))
		for at := time.Duration(0); at < 4*time.Hour; at += time.Duration(rng.ExpFloat64() * float64(2*time.Second)) {
			if rng.IntN(500) == 0 {
				at += time.Duration(rng.IntN(300)) * time.Second
			}
			requests = append(requests, request{key: string(rune('a' + i)), at: at})
		}
	}
	slices.SortStableFunc(requests, func(x, y request) int { return cmp.Compare(x.at, y.at) })
	m := compare(requests, 30, time.Minute)
	holdTo(t, "| made: 40 clients, one request in 2 s each | 30 in 1 min "+m.String())
}

// And on recorded traffic, where that is at hand.
func TestR1_8TheSlidingCountersErrorOnTraces(t *testing.T) {
	t.Parallel()
	dir := tracesDir(t)
	site := siteTrace(t, filepath.Join(dir, "http-access.log"))
	for text, m := range map[string]*mistakes{
		"| one web site's access log, by client address | 20 in 1 min ": compare(site, 20, time.Minute),
		"| the same | 100 in 1 h ":                                      compare(site, 100, time.Hour),
		"| chat requests to a language model, all together | 300 in 1 min ": compare(
			columnTrace(t, filepath.Join(dir, "llm-conversations.csv")), 300, time.Minute),
		"| code completions, all together | 10 in 1 s ": compare(columnTrace(t, filepath.Join(dir, "llm-code.csv")), 10, time.Second),
	} {
		holdTo(t, text+m.String())
	}
}

func tracesDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("QUOTALEASE_TRACES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "traces")
	}
	if _, err := os.Stat(filepath.Join(dir, "http-access.log")); err != nil {
		t.Skip("no recorded traffic in " + dir + ": name its folder in QUOTALEASE_TRACES")
	}
	return dir
}

var logLine = regexp.MustCompile(`^(\S+) \S+ \S+ \[([^\]]+)\]`)

func siteTrace(t *testing.T, path string) (requests []request) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		m := logLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		at, err := time.Parse("02/Jan/2006:15:04:05 -0700", m[2])
		if err != nil {
			t.Fatal(err)
		}
		requests = append(requests, request{key: m[1], at: time.Duration(at.UnixNano())})
	}
	return inOrder(t, requests)
}

func columnTrace(t *testing.T, path string) (requests []request) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] {
		at, err := time.Parse("2006-01-02 15:04:05.9999999", row[0])
		if err != nil {
			t.Fatal(err)
		}
		requests = append(requests, request{at: time.Duration(at.UnixNano())})
	}
	return inOrder(t, requests)
}

func inOrder(t *testing.T, requests []request) []request {
	t.Helper()
	if len(requests) < 1000 {
		t.Fatalf("only %d requests", len(requests))
	}
	slices.SortStableFunc(requests, func(x, y request) int { return cmp.Compare(x.at, y.at) })
	return requests
}
