package main

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestReadmeShowsTheSpeedThatWasMeasured holds the README's table to PERFORMANCE.md, where all that was
// measured stands, and its chart to being one.
func TestReadmeShowsTheSpeedThatWasMeasured(t *testing.T) {
	t.Parallel()
	_, rest, _ := strings.Cut(document(t, "README.md"), "<!-- speed -->")
	table, below, found := strings.Cut(rest, "<!-- /speed -->")
	if !found {
		t.Fatal("the README has no table of speed")
	}
	measured := tableRows(document(t, "sim/bench/PERFORMANCE.md"))
	rows := tableRows(table)
	if len(rows) < 8 {
		t.Errorf("the README shows %d figures", len(rows))
	}
	for _, row := range rows {
		if len(row) != 5 {
			t.Fatalf("%q: want a figure, ours, a yardstick, its, and the ratio", row)
		}
		ours, beside, its, ratio := row[1], row[2], row[3], strings.TrimSuffix(row[4], "x")
		if !slices.ContainsFunc(measured, func(m []string) bool {
			return slices.Contains(m, ours) && slices.Contains(m, beside) && slices.Contains(m, its) && (slices.Contains(m, ratio) || slices.Contains(m, ratio+"x"))
		}) {
			t.Errorf("%s: %s beside %s of %q, ratio %s: no row of PERFORMANCE.md says so", row[0], ours, its, beside, ratio)
		}
	}
	image := regexp.MustCompile(`!\[[^\]]+\]\((sim/bench/\S+\.svg)\)`).FindStringSubmatch(below)
	if image == nil {
		t.Fatal("the README shows no chart of speed")
	}
	if err := xml.Unmarshal([]byte(document(t, image[1])), new(struct{ XMLName xml.Name })); err != nil {
		t.Errorf("%s: %v", image[1], err)
	}
}

// tableRows are the rows of Markdown's tables, without the heads.
func tableRows(text string) (rows [][]string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			continue
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		if strings.Trim(line, "|-") == "" {
			rows = rows[:len(rows)-1] // what stood above is the head
			continue
		}
		rows = append(rows, cells)
	}
	return rows
}

// shownCall is a curl command of the README, and what is shown below it.
type shownCall struct {
	path, body string
	status     int
	answer     map[string]string // as written, without what differs each time
}

// differing are the fields that time and chance decide.
const differing = " retry_after_ms reset_ms expires_ms waited_ms "

// readmeCalls reads the README's calls to the agent, in their order.
func readmeCalls(t *testing.T) (calls []shownCall) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`^    \$ curl .*-d '(\{.*\})' http://127\.0\.0\.1:7611/v1/(\w+)$`)
	field := regexp.MustCompile(`"(\w+)":("[^"]*"|\w+)`)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if m := command.FindStringSubmatch(line); m != nil {
			calls = append(calls, shownCall{path: m[2], body: m[1], status: 200, answer: map[string]string{}})
			continue
		}
		if len(calls) == 0 || !strings.HasPrefix(line, "    ") {
			continue
		}
		last := &calls[len(calls)-1]
		if strings.Contains(line, " 429 ") || strings.Contains(line, `"allowed":false`) {
			last.status = 429
		}
		for _, m := range field.FindAllStringSubmatch(line, -1) {
			if !strings.Contains(differing, " "+m[1]+" ") {
				last.answer[m[1]] = m[2]
			}
		}
	}
	return calls
}

// walkReadme does what the README does, in its order, and compares the answers.
func (d *devRun) walkReadme(t *testing.T) {
	t.Helper()
	calls := readmeCalls(t)
	if len(calls) != 9 {
		t.Fatalf("the README shows %d calls, want 9", len(calls))
	}
	shown, made := "", "" // the id of the README's reservation, and of this one
	for _, c := range calls {
		status, _, answer := d.post(t, c.path, strings.ReplaceAll(c.body, shown, made))
		if status != c.status {
			t.Errorf("%s %s: %d %v, want %d", c.path, c.body, status, answer, c.status)
		}
		if c.path == "reserve" {
			shown, made = strings.Trim(c.answer["id"], `"`), strings.Trim(fmt.Sprint(answer["id"]), `"`)
		}
		for name, want := range c.answer {
			got, err := json.Marshal(answer[name])
			if want = strings.ReplaceAll(want, shown, made); err != nil || string(got) != want {
				t.Errorf("%s %s: %s is %s, the README shows %s", c.path, c.body, name, got, want)
			}
		}
	}
}
