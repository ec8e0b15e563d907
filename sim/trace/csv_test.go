package trace

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
)

// readOne reads the only event of a trace.
func readOne(t *testing.T, text string, o Options) (Event, error) {
	t.Helper()
	r, err := NewReader(strings.NewReader(text), o)
	if err != nil {
		return Event{}, err
	}
	e, err := r.Next()
	if err == io.EOF && len(r.Summary().Problems) > 0 {
		t.Fatalf("%q: %s", text, r.Summary().Problems[0])
	}
	return e, err
}

func TestCSVColumns(t *testing.T) {
	t.Parallel()
	at := time.Date(2023, time.November, 16, 18, 15, 46, 680_590_000, time.UTC)
	for _, c := range []struct {
		name, text string
		columns    Columns
		want       Event
	}{
		{"default names", "timestamp,tenant,dimension,cost\n2023-11-16T18:15:46.68059Z,acme,api_calls,3\n", Columns{}, Event{at, "acme", "api_calls", 3}},
		{"in any order and case, quoted, spaced", "Cost, DIMENSION, Tenant, TimeStamp\r\n7,\"API calls\",\"acme, inc\", 2023-11-16T18:15:46.68059Z\r\n", Columns{}, Event{at, "acme, inc", "api-calls", 7}},
		{"as published for LLM requests", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n", Columns{}, Event{at, "trace", "tokens", 418}},
		{"one part of it mapped", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n", Columns{Tenant: "=acme", Cost: "generatedtokens"}, Event{at, "acme", "tokens", 44}},
		{"own names, a sum and a constant", "when,who,in,out\n2023-11-16T18:15:46.68059Z,acme,10,5\n", Columns{"when", "who", "=llm_tokens", "in + out"}, Event{at, "acme", "llm_tokens", 15}},
		{"the same cost in all rows", "timestamp,who\n2023-11-16T18:15:46.68059Z,acme\n", Columns{Tenant: "who", Dimension: "=api_calls", Cost: "=2"}, Event{at, "acme", "api_calls", 2}},
		{"the exact spelling first", "timestamp,cost,Cost\n2023-11-16T18:15:46.68059Z,1,2\n", Columns{Tenant: "=a", Dimension: "=b", Cost: "Cost"}, Event{at, "a", "b", 2}},
		{"a column with a plus in its name", "timestamp,a+b,a,b\n2023-11-16T18:15:46.68059Z,9,1,2\n", Columns{Tenant: "=a", Dimension: "=b", Cost: "a+b"}, Event{at, "a", "b", 9}},
		{"byte order mark and blank lines first", "\xef\xbb\xbf\n\ntimestamp,tenant,dimension,cost\n\n2023-11-16T18:15:46.68059Z,acme,x,0", Columns{}, Event{at, "acme", "x", 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := readOne(t, c.text, Options{Format: CSV, Columns: c.columns})
			if err != nil || got != c.want {
				t.Errorf("%q is %+v, %v\nwant %+v", c.text, got, err, c.want)
			}
		})
	}
}

func TestCSVFaultsNameTheFlagAndTheColumns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, header string
		columns      Columns
		want         string
	}{
		{"unknown", "when,who,cost", Columns{"when", "whom", "=x", ""}, `--tenant-column: there is no column "whom" (columns: "when", "who", "cost")`},
		{"unknown in a sum", "timestamp,tenant,dimension,in", Columns{Cost: "in+out"}, `--cost-column: there is no column "out" (columns: "timestamp", "tenant", "dimension", "in")`},
		{"no time", "when", Columns{Tenant: "=a", Dimension: "=b", Cost: "=1"}, `--timestamp-column: name a column; this file has no "timestamp" (columns: "when")`},
		{"no tenant, no cost", "timestamp,dimension", Columns{}, `--tenant-column: name a column, or write --tenant-column =NAME for the same in every row; this file has no "tenant" (columns: "timestamp", "dimension")
--cost-column: name a column, or write --cost-column =1 for the same in every row; this file has no "cost" (columns: "timestamp", "dimension")`},
		{"no dimension", "timestamp,tenant,cost", Columns{}, `--dimension-column: name a column, or write --dimension-column =NAME for the same in every row; this file has no "dimension" (columns: "timestamp", "tenant", "cost")`},
		{"two that fit", "timestamp,tenant,dimension,Cost,COST", Columns{}, `--cost-column: "cost" fits 2 columns (columns: "timestamp", "tenant", "dimension", "Cost", "COST")`},
		{"constant tenant", "timestamp", Columns{Tenant: "=", Dimension: "=b", Cost: "=1"}, `read --tenant-column: tenant: 1 to 256 bytes of UTF-8 without control characters`},
		{"constant dimension", "timestamp", Columns{Tenant: "=a", Dimension: "=API", Cost: "=1"}, `read --dimension-column: dimension: 1 to 63 characters of a-z, 0-9, '_', '-' and '.', beginning with a letter or digit`},
		{"constant cost", "timestamp", Columns{Tenant: "=a", Dimension: "=b", Cost: "=-1"}, `read --cost-column: cost: a whole number, 0 or above, within int64`},
		{"no csv", `a"b`, Columns{}, `read header of trace: csv: column 2: bare " in non-quoted-field`},
		{"empty", "", Columns{}, `header: a csv trace begins with a row of column names; this one is empty`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := readOne(t, c.header, Options{Format: CSV, Columns: c.columns})
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestCSVWithVeryManyColumnsNamesTheFirst(t *testing.T) {
	t.Parallel()
	_, err := readOne(t, strings.Repeat("a,", 30)+"b", Options{Format: CSV, Columns: Columns{Timestamp: "when"}})
	if err == nil || !strings.Contains(err.Error(), `"a", and 11 more)`) {
		t.Errorf("got %v", err)
	}
}

func TestCSVRowsThatAreNone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, row, want string }{
		{"too few fields", "2023-11-16T18:15:46Z,acme,x,1", "csv: 4 fields in a file of 5 columns"},
		{"quote never closed", `2023-11-16T18:15:46Z,"acme,x,1,1`, `csv: column 33: extraneous or missing " in quoted-field`},
		{"no time", ",acme,x,1,1", "timestamp: RFC 3339, 2023-11-16 18:15:46.68 (UTC), unix seconds, unix milliseconds"},
		{"no tenant", "2023-11-16T18:15:46Z,,x,1,1", "tenant: 1 to 256 bytes of UTF-8 without control characters"},
		{"no dimension", "2023-11-16T18:15:46Z,acme,,1,1", "dimension: 1 to 63 characters of a-z, 0-9, '_', '-' and '.', beginning with a letter or digit"},
		{"negative", "2023-11-16T18:15:46Z,acme,x,-1,1", "cost: a whole number, 0 or above, within int64"},
		{"a fraction", "2023-11-16T18:15:46Z,acme,x,1.5,1", "cost: a whole number, 0 or above, within int64"},
		{"above int64", "2023-11-16T18:15:46Z,acme,x,9223372036854775808,0", "cost: a whole number, 0 or above, within int64"},
		{"a sum above int64", "2023-11-16T18:15:46Z,acme,x,9223372036854775807,1", "add up cost: amount leaves the int64 range"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			text := "timestamp,tenant,dimension,in,out\n" + c.row + "\n2023-11-16T18:15:46Z,good,x,9223372036854775806,1\n"
			r, err := NewReader(strings.NewReader(text), Options{Format: CSV, Columns: Columns{Cost: "in+out"}})
			if err != nil {
				t.Fatal(err)
			}
			e, err := r.Next()
			if err != nil || e.Tenant != "good" || e.Cost != quota.MaxUnits {
				t.Errorf("the line after it is %+v, %v", e, err)
			}
			s := r.Summary()
			if s.Malformed != 1 || s.Problems[0] != (Problem{Line: 2, What: c.want}) {
				t.Errorf("got  %v\nwant line 2: %s", s.Problems, c.want)
			}
		})
	}
}

func TestTimestamps(t *testing.T) {
	t.Parallel()
	day := func(hour, minute, second, nano int) time.Time {
		return time.Date(2023, time.November, 16, hour, minute, second, nano, time.UTC)
	}
	for _, c := range []struct {
		text string
		want time.Time
	}{
		{"2023-11-16T18:15:46Z", day(18, 15, 46, 0)},
		{"2023-11-16T18:15:46.5+02:00", day(16, 15, 46, 500_000_000)},
		{"2023-11-16 18:15:46", day(18, 15, 46, 0)},
		{"2023-11-16 18:15:46.6805909", day(18, 15, 46, 680_590_000)}, // below a microsecond is cut
		{"2023-11-16 18:15:46.009930+00:00", day(18, 15, 46, 9_930_000)},
		{"1700158546", day(18, 15, 46, 0)},
		{"1700158546680", day(18, 15, 46, 680_000_000)},
		{"0", time.Unix(0, 0).UTC()},
	} {
		if got, err := parseTimestamp(c.text); err != nil || got != c.want {
			t.Errorf("%s is %v, %v, want %v", c.text, got, err, c.want)
		}
	}
	for _, text := range []string{
		"", "-1", "noon", "2023-11-16", "1700158546680590", "99999999999999999999", "1969-12-31T23:59:59Z", "2262-01-01T00:00:00Z",
	} {
		if got, err := parseTimestamp(text); err == nil {
			t.Errorf("%q passes for %v", text, got)
		}
	}
}

func FuzzCSV(f *testing.F) {
	f.Add("timestamp,tenant,dimension,cost\n2023-11-16T18:15:46Z,acme,x,1\n", "", "", "")
	f.Add("TIMESTAMP,ContextTokens,GeneratedTokens\n1700158546680,374,44\n", "=acme", "=tokens", "ContextTokens+GeneratedTokens")
	f.Add("a,b\n\"1\n", "a", "b", "=1")
	f.Fuzz(func(t *testing.T, text, tenant, dimension, cost string) {
		fuzzReader(t, text, Options{Format: CSV, Columns: Columns{Tenant: tenant, Dimension: dimension, Cost: cost}})
	})
}
