package trace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

const goodLine = `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 1` + "\n"

func TestFormatIsToldByNameThenContents(t *testing.T) {
	t.Parallel()
	const csvText = "timestamp,tenant,dimension,cost\n"
	for _, c := range []struct {
		name string
		o    Options
		text string
		want Format
	}{
		{"csv by name", Options{Name: "/var/x/USAGE.CSV"}, csvText, CSV},
		{"log by name", Options{Name: "access.log"}, "junk, junk\n", AccessLog},
		{"csv by contents", Options{}, "\n" + csvText, CSV},
		{"log by contents, after junk", Options{Name: "access.log.1"}, "\xef\xbb\xbfjunk, junk\n" + goodLine, AccessLog},
		{"asked for csv", Options{Name: "access.log", Format: CSV}, csvText, CSV},
		{"asked for a log", Options{Name: "usage.csv", Format: AccessLog}, goodLine, AccessLog},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, err := NewReader(strings.NewReader(c.text), c.o)
			if err != nil || r.Summary().Format != c.want {
				t.Errorf("%q: %+v, %v, want %s", c.text, r, err, c.want)
			}
		})
	}
	for _, o := range []Options{{}, {Name: "notes.txt"}, {Format: "xml"}, {Name: "access.log", Columns: Columns{Tenant: "=acme"}}} {
		_, err := NewReader(strings.NewReader("hello\nworld, hello\n"), o)
		if _, ok := errors.AsType[*quota.FieldError](err); !ok {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestParseFormat(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Format{"": Auto, "auto": Auto, "csv": CSV, "access-log": AccessLog} {
		if got, err := ParseFormat(text); err != nil || got != want {
			t.Errorf("%q is %q, %v", text, got, err)
		}
	}
	if _, err := ParseFormat("xml"); err == nil || err.Error() != "--format: auto, access-log or csv" {
		t.Errorf("xml: %v", err)
	}
}

func TestMalformedLinesAreCountedAndNeverEndTheRead(t *testing.T) {
	t.Parallel()
	text := "junk\n\n" + goodLine + strings.Repeat("junk\n", 7) + strings.Repeat("x", 3*MaxLineBytes) + "\n" + goodLine + "cut off"
	r, err := NewReader(strings.NewReader(text), Options{Format: AccessLog})
	if err != nil {
		t.Fatal(err)
	}
	events := 0
	for ; ; events++ {
		if _, err := r.Next(); err != nil {
			if err != io.EOF {
				t.Fatal(err)
			}
			break
		}
	}
	s := r.Summary()
	if events != 2 || s.Events != 2 || s.Malformed != 10 || s.Lines != 13 {
		t.Errorf("%d events, %+v", events, s)
	}
	var at []int
	for _, p := range s.Problems {
		at = append(at, p.Line)
	}
	if !slices.Equal(at, []int{1, 4, 5, 6, 7}) {
		t.Errorf("the first problems are in lines %v", at)
	}
}

func TestLongLinesAreMalformed(t *testing.T) {
	t.Parallel()
	fits := strings.Repeat("x", MaxLineBytes-1)
	in := newLines(strings.NewReader(fits + "\n" + fits + "xx\n" + "next\n" + fits + "xxx"))
	for i, want := range []struct {
		line string
		err  error
	}{{fits, nil}, {"", errLongLine}, {"next", nil}, {"", errLongLine}, {"", io.EOF}} {
		if line, err := in.next(); line != want.line || err != want.err {
			t.Errorf("line %d has %d bytes, %v; want %d, %v", i+1, len(line), err, len(want.line), want.err)
		}
	}
}

// endless repeats a text up to n bytes in all.
type endless struct {
	text string
	n    int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.n <= 0 {
		return 0, io.EOF
	}
	n := copy(p, e.text)
	e.n -= n
	return n, nil
}

// Not parallel: it looks at the memory of the whole process.
func TestReadingTakesConstantMemory(t *testing.T) {
	for name, text := range map[string]string{"events": goodLine, "junk": "junk\n", "one line": "x"} {
		r, err := NewReader(&endless{text: text, n: 200_000}, Options{Format: AccessLog})
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for err == nil {
			_, err = r.Next()
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 100_000 {
			t.Errorf("%s: 200,000 bytes read, %d bytes kept", name, grown)
		}
		runtime.KeepAlive(r)
	}
}

func TestBrokenStreamIsReportedWithItsLine(t *testing.T) {
	t.Parallel()
	broken := errors.New("cable cut")
	in := io.MultiReader(strings.NewReader(goodLine), iotest.ErrReader(broken))
	_, s, err := Load(t.Context(), in, Options{Format: AccessLog})
	if !errors.Is(err, broken) || err.Error() != "read line 2 of trace: cable cut" || s.Events != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := NewReader(iotest.ErrReader(broken), Options{}); !errors.Is(err, broken) {
		t.Errorf("while telling the format: %v", err)
	}
	if _, err := NewReader(iotest.ErrReader(broken), Options{Format: CSV}); !errors.Is(err, broken) {
		t.Errorf("in the header: %v", err)
	}
}

func TestLoadSortsByTimeAndKeepsTies(t *testing.T) {
	t.Parallel()
	text := "timestamp,tenant,dimension,cost\n1700000009,a,x,1\n1700000001,b,x,2\n1700000009,c,y,3\n1700000001,a,x,4\n1700000005,b,x,5\nnoon,a,x,6\n"
	events, s, err := Load(t.Context(), strings.NewReader(text), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var costs []quota.Units
	for _, e := range events {
		costs = append(costs, e.Cost)
	}
	if !slices.Equal(costs, []quota.Units{2, 4, 5, 1, 3}) {
		t.Errorf("order is %v", costs)
	}
	if s.Events != 5 || s.Malformed != 1 || s.Tenants != 3 || s.Dimensions != 2 ||
		s.First != time.Unix(1700000001, 0).UTC() || s.Last != time.Unix(1700000009, 0).UTC() {
		t.Errorf("summary %+v", s)
	}
}

func TestLoadHasLimitsAndEnds(t *testing.T) {
	t.Parallel()
	if events, _, err := load(t.Context(), strings.NewReader(strings.Repeat(goodLine, 3)), Options{}, 3); err != nil || len(events) != 3 {
		t.Errorf("3 events of at most 3: %d, %v", len(events), err)
	}
	_, _, err := load(t.Context(), strings.NewReader(strings.Repeat(goodLine, 4)), Options{}, 3)
	if err == nil || err.Error() != "load trace: more than 3 events; replay a part of it" {
		t.Errorf("4 events of at most 3: %v", err)
	}
	_, s, err := Load(t.Context(), strings.NewReader("\njunk\n"), Options{Format: AccessLog})
	if err == nil || err.Error() != "load trace: no event in 2 lines of access-log; line 2: "+errClient.Error() || s.Malformed != 1 {
		t.Errorf("junk only: %+v, %v", s, err)
	}
	if _, _, err := Load(t.Context(), strings.NewReader(""), Options{Format: AccessLog}); err == nil {
		t.Error("an empty trace loads")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Load(ctx, &endless{text: "junk\n", n: 1 << 40}, Options{Format: AccessLog}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
}

// realTraces is where recorded traffic lies, if it does: in a folder beside the repository.
func realTraces(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		if root == filepath.Dir(root) {
			t.Fatal("there is no go.mod above this package")
		}
		root = filepath.Dir(root)
	}
	dir := filepath.Join(root, "..", "shared", "traces")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no recorded traffic: %v", err)
	}
	return dir
}

func loadFile(t *testing.T, path string) ([]Event, Summary) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	events, s, err := Load(t.Context(), f, Options{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	return events, s
}

func TestTracesLoadWithoutOptions(t *testing.T) {
	t.Parallel()
	type want struct {
		events, malformed, tenants, dimensions int
		total                                  quota.Units
	}
	check := func(t *testing.T, path string, w want) {
		events, s := loadFile(t, path)
		var total quota.Units
		for _, e := range events {
			checkEvent(t, e)
			total += e.Cost
		}
		got := want{len(events), s.Malformed, s.Tenants, s.Dimensions, total}
		if got != w {
			t.Errorf("%s: %+v, want %+v; problems %v", path, got, w, s.Problems)
		}
		if events[0].At != s.First || events[len(events)-1].At != s.Last {
			t.Errorf("%s: from %v to %v, summary %v to %v", path, events[0].At, events[len(events)-1].At, s.First, s.Last)
		}
	}
	for name, w := range map[string]want{
		"access.log": {395, 5, 11, 6, 395},
		"usage.csv":  {300, 0, 3, 3, 398_643},
	} {
		check(t, filepath.Join("testdata", name), w)
	}
	t.Run("recorded", func(t *testing.T) {
		t.Parallel()
		dir := realTraces(t)
		for name, w := range map[string]want{
			"http-access.log":       {10_000, 0, 1_753, 41, 10_000},
			"llm-conversations.csv": {19_366, 0, 1, 1, 26_450_535},
			"llm-code.csv":          {8_819, 0, 1, 1, 18_305_870},
		} {
			check(t, filepath.Join(dir, name), w)
		}
	})
}

func ExampleProblem() {
	fmt.Println(Problem{Line: 7, What: "cost: a whole number, 0 or above, within int64"})
	// Output: line 7: cost: a whole number, 0 or above, within int64
}
