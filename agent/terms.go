package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// The terms that policy sets are kept on disk, so that an agent that starts while the control
// plane cannot be reached does with each key as policy says. No lease and no allowance is: a
// restart begins with none.

// termsFile is the file in Config.StateDir: a line as keptFile has it, and then the catalogue as
// the lease protocol has it.
var termsFile = keptFile{name: "terms", is: "terms", most: 64 << 20}

const termsMaxAge = 24 * time.Hour

// keptTerms keeps the catalogue on disk. It belongs to the loop that syncs.
type keptTerms struct {
	dir       string // empty: nothing is kept
	maxAge    time.Duration
	log       *slog.Logger
	catalogue *pb.Catalogue // in force
	saved     time.Time
}

// load returns the terms that were kept, or nil if there are none that can be believed.
func (t *keptTerms) load(now time.Time) *pb.Catalogue {
	if t.dir == "" {
		return nil
	}
	var catalogue *pb.Catalogue
	at, body, err := termsFile.read(t.dir, now, t.maxAge)
	if err == nil && body != nil {
		catalogue, err = readTerms(body)
	}
	if err != nil {
		t.log.Warn("ignoring the terms on disk", "file", termsFile.in(t.dir), "cause", err)
		return nil
	}
	t.catalogue, t.saved = catalogue, at
	return catalogue
}

// readTerms reads a catalogue that was kept.
func readTerms(body []byte) (*pb.Catalogue, error) {
	catalogue := &pb.Catalogue{}
	if err := proto.Unmarshal(body, catalogue); err != nil {
		return nil, fmt.Errorf("read the catalogue: %w", err)
	}
	if catalogue.GetPolicyVersion() < 1 {
		return nil, errors.New("they have no policy version")
	}
	return catalogue, nil
}

// keep takes note of contact: the terms are newer ones, or, with nil, those known are still in
// force. They are written when they change, and often enough that their age tells how long
// contact has been lost.
func (t *keptTerms) keep(now time.Time, newer *pb.Catalogue) {
	if newer != nil {
		t.catalogue, t.saved = newer, time.Time{}
	}
	if t.dir == "" || t.catalogue == nil || now.Sub(t.saved).Abs() < t.maxAge/8 {
		return
	}
	t.saved = now
	body, err := proto.Marshal(t.catalogue)
	if err == nil {
		err = termsFile.write(t.dir, now, body)
	}
	if err != nil {
		t.log.Warn("the terms could not be kept on disk", "file", termsFile.in(t.dir), "cause", err)
	}
}
