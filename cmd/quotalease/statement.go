package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

const formatCSV = "csv"

// statementView is one window's statement. Times are in the dimension's zone, with its offset.
type statementView struct {
	Tenant      string      `json:"tenant"`
	Dimension   string      `json:"dimension"`
	Unit        string      `json:"unit"`
	WindowStart string      `json:"window_start"`
	WindowEnd   string      `json:"window_end"`
	Limit       *int64      `json:"limit"`
	Unlimited   bool        `json:"unlimited"`
	Limits      []forceView `json:"limits"` // every one that was in force
	Credit      int64       `json:"credit"`
	Billable    int64       `json:"billable"`
	Held        int64       `json:"held"`
	Uncertain   int64       `json:"uncertain"`
	Outstanding int64       `json:"outstanding"`
	Emergency   int64       `json:"emergency"`
	Overshoot   int64       `json:"overshoot"`
	OverLimit   int64       `json:"over_limit"`
	Revision    int64       `json:"revision"`
	Final       bool        `json:"final"`
	ClosedAt    string      `json:"closed_at"`
	FinalAt     *string     `json:"final_at"` // null: not yet
	RevisedAt   string      `json:"revised_at"`
	Note        string      `json:"note"`
}

// forceView is a limit that was in force from a time on.
type forceView struct {
	At            string `json:"at"`
	Limit         *int64 `json:"limit"`
	Unlimited     bool   `json:"unlimited"`
	PolicyVersion int64  `json:"policy_version"` // 0: of the opening, which is not recorded
	Note          string `json:"note"`
}

func newStatementView(s *pb.Statement) statementView {
	at := zoned(s.GetTimezone())
	v := statementView{
		Tenant: s.GetKey().GetTenant(), Dimension: s.GetKey().GetDimension(), Unit: s.GetUnit(),
		WindowStart: at(s.GetWindow().GetStartUs()), WindowEnd: at(s.GetWindow().GetEndUs()),
		Credit: s.GetCredit(), Billable: s.GetBillable(), Held: s.GetHeld(), Uncertain: s.GetUncertain(),
		Outstanding: s.GetOutstanding(), Emergency: s.GetEmergency(), Overshoot: s.GetOvershoot(), OverLimit: s.GetOverLimit(),
		Revision: s.GetRevision(), Final: s.GetFinal(), ClosedAt: at(s.GetClosedAtUs()), RevisedAt: at(s.GetAtUs()), Note: s.GetNote(),
	}
	v.Limit, v.Unlimited = amount(s.GetLimit())
	if s.GetFinalAtUs() != 0 {
		final := at(s.GetFinalAtUs())
		v.FinalAt = &final
	}
	v.Limits = each(s.GetLimits(), func(l *pb.LimitChange) forceView {
		limit, none := amount(l.GetLimit())
		return forceView{at(l.GetAtUs()), limit, none, l.GetPolicyVersion(), l.GetNote()}
	})
	return v
}

// zoned writes times of the wire in a zone, with its offset; UTC if the zone is not known.
func zoned(timezone string) func(us int64) string {
	calendar, err := quota.ParsePeriod(string(quota.EveryDay), timezone, 0, "")
	if err != nil {
		calendar = quota.Calendar{}
	}
	return func(us int64) string { return calendar.Local(time.UnixMicro(us)).Format(time.RFC3339Nano) }
}

var statementColumns = []string{
	"tenant", "dimension", "unit", "window_start", "window_end", "limit", "limits", "credit", "billable", "held", "uncertain",
	"outstanding", "emergency", "overshoot", "over_limit", "revision", "final", "closed_at", "final_at", "revised_at", "note",
}

// cells are a statement's columns. Numbers have no grouping, and no limit is a word.
func (v statementView) cells() []string {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	word := func(n *int64) string {
		if n == nil {
			return unlimited
		}
		return number(*n)
	}
	limits := make([]string, len(v.Limits))
	for i, l := range v.Limits {
		limits[i] = word(l.Limit) + " from " + l.At
	}
	final := ""
	if v.FinalAt != nil {
		final = *v.FinalAt
	}
	return []string{
		v.Tenant, v.Dimension, v.Unit, v.WindowStart, v.WindowEnd, word(v.Limit), strings.Join(limits, "; "), number(v.Credit),
		number(v.Billable), number(v.Held), number(v.Uncertain), number(v.Outstanding), number(v.Emergency), number(v.Overshoot),
		number(v.OverLimit), number(v.Revision), strconv.FormatBool(v.Final), v.ClosedAt, final, v.RevisedAt, v.Note,
	}
}

func newUsageExportCommand(sh *shell) *cobra.Command {
	var request pb.ListStatementsRequest
	var format, from, to string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write the usage statements of windows that ended",
		Long: `Export writes one line for each window that has ended: its latest usage statement.
Billable is confirmed use, and nothing else. What is held, uncertain or outstanding counts
against the limit but is not billed: a report may still confirm it, which adds a revision.
A statement is final when nothing of its window is open any more, or the policy's
statement.final_after (3 days) after its end; what is reported later still counts, and its
revision says "after final". With --revisions every revision is written. Statements are kept
as long as their windows, see quotalease controlplane --account-retention.

The limits column lists every limit that was in force, with the time from which it was.
Times are in the time zone of the dimension. --from and --to go by the start of a window,
which --from includes and --to does not; a date means midnight in the dimension's zone.

CSV has a header and the quotes of RFC 4180. Text is written as it is, for programs that join it with other
tables; a spreadsheet may take a name that begins with = + - or @ for a formula: import
such a column as text.`,
		Example: "  quotalease usage export --from 2026-11-01 --to 2026-12-01 > november.csv\n" +
			"  quotalease usage export --tenant acme --final-only --format json",
		Args: arguments(0, 0, "none, windows are chosen by flags"),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			switch {
			case format == "" && sh.format == formatJSON:
				format = formatJSON
			case format == "":
				format = formatCSV
			case format != formatCSV && format != formatJSON:
				return misuse("--format: %q; allowed: csv, json", format)
			}
			if request.From, err = readStart("--from", from); err != nil {
				return err
			}
			if request.To, err = readStart("--to", to); err != nil {
				return err
			}
			return sh.export(cmd.Context(), &request, format)
		},
	}
	cmd.Flags().StringVar(&format, "format", "", "csv or json (default csv; json with -o json)")
	cmd.Flags().StringVar(&request.Tenant, "tenant", "", "only this tenant's windows")
	cmd.Flags().StringVar(&request.Dimension, "dimension", "", "only windows of this dimension")
	cmd.Flags().StringVar(&from, "from", "", "only windows that start then or later; a date, or a time such as 2026-11-29T00:00:00+09:00")
	cmd.Flags().StringVar(&to, "to", "", "only windows that start before then")
	cmd.Flags().BoolVar(&request.FinalOnly, "final-only", false, "only windows whose statement is final")
	cmd.Flags().BoolVar(&request.Revisions, "revisions", false, "every revision, not each window's latest alone")
	return cmd
}

// readStart reads the start of a window: a time with its offset, or a date or time as the clock
// of the dimension's zone shows it.
func readStart(flag, s string) (*pb.WindowStart, error) {
	if s == "" {
		return nil, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return &pb.WindowStart{AtUs: t.UnixMicro()}, nil
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if t, err := time.Parse(layout, s); err == nil {
			return &pb.WindowStart{AtUs: t.UnixMicro(), Local: true}, nil
		}
	}
	return nil, misuse("%s: %q; allowed: a date such as 2026-11-29, or a time such as 2026-11-29T00:00:00+09:00", flag, s)
}

// export writes page after page: however many statements there are, it holds one page.
func (sh *shell) export(ctx context.Context, request *pb.ListStatementsRequest, format string) error {
	buffered := bufio.NewWriter(sh.out)
	rows := newStatementWriter(buffered, format)
	for {
		reply, err := ask(ctx, sh, "export usage", pb.AdminServiceClient.ListStatements, request)
		if err != nil {
			return err
		}
		for _, s := range reply.GetStatements() {
			if err := rows.add(newStatementView(s)); err != nil {
				return fmt.Errorf("write statements: %w", err)
			}
		}
		if reply.GetNext() == nil {
			break
		}
		request.After = reply.GetNext()
	}
	if err := rows.end(); err != nil {
		return fmt.Errorf("write statements: %w", err)
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("write statements: %w", err)
	}
	if rows.written() == 0 && format == formatCSV {
		sh.note("no statements")
	}
	return nil
}

// statementWriter writes statements one at a time.
type statementWriter interface {
	add(statementView) error
	end() error
	written() int
}

func newStatementWriter(w io.Writer, format string) statementWriter {
	if format == formatJSON {
		return &jsonStatements{out: w}
	}
	return &csvStatements{out: csv.NewWriter(w)}
}

// csvStatements begins with a header, also when nothing follows.
type csvStatements struct {
	out  *csv.Writer
	rows int
}

func (c *csvStatements) add(v statementView) error {
	if err := c.header(); err != nil {
		return err
	}
	c.rows++
	return c.out.Write(v.cells())
}

func (c *csvStatements) header() error {
	if c.rows > 0 {
		return nil
	}
	return c.out.Write(statementColumns)
}

func (c *csvStatements) end() error {
	if err := c.header(); err != nil {
		return err
	}
	c.out.Flush()
	return c.out.Error()
}

func (c *csvStatements) written() int { return c.rows }

// jsonStatements writes the array that -o json writes elsewhere, element by element.
type jsonStatements struct {
	out  io.Writer
	rows int
}

func (j *jsonStatements) add(v statementView) error {
	before := ",\n  "
	if j.rows == 0 {
		before = "[\n  "
	}
	j.rows++
	if _, err := io.WriteString(j.out, before); err != nil {
		return err
	}
	var text strings.Builder
	enc := json.NewEncoder(&text)
	enc.SetIndent("  ", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(j.out, strings.TrimSuffix(text.String(), "\n"))
	return err
}

func (j *jsonStatements) end() error {
	after := "\n]\n"
	if j.rows == 0 {
		after = "[]\n"
	}
	_, err := io.WriteString(j.out, after)
	return err
}

func (j *jsonStatements) written() int { return j.rows }
