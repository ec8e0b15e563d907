package report

import (
	"io"

	"github.com/quotalease/quotalease/sim/scenario"
)

// Write writes the page.
func Write(w io.Writer, r *scenario.Report) error { return nil }
