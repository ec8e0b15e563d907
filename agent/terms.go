package agent

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// The terms that policy sets are kept on disk, so that an agent that starts while the control
// plane cannot be reached does with each key as policy says. Nothing else is: a restart begins
// with no lease and no allowance.

// termsFile is the file in Config.StateDir. It holds one line, which names the format, when the
// terms were last known to be in force and the checksum of what follows, and then the catalogue
// as the lease protocol has it.
const (
	termsFile   = "terms"
	termsFormat = "quotalease terms 1 %d %x\n" // seconds since 1970, SHA-256
	maxTerms    = 64 << 20
	termsMaxAge = 24 * time.Hour
)

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
	at, catalogue, err := t.read()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && (now.Sub(at) > t.maxAge || at.Sub(now) > t.maxAge) {
		err = fmt.Errorf("they are of %s", at.UTC().Format(time.RFC3339))
	}
	if err != nil {
		t.log.Warn("ignoring the terms on disk", "file", t.file(), "cause", err)
		return nil
	}
	t.catalogue, t.saved = catalogue, at
	return catalogue
}

func (t *keptTerms) file() string { return filepath.Join(t.dir, termsFile) }

func (t *keptTerms) read() (time.Time, *pb.Catalogue, error) {
	info, err := os.Stat(t.file())
	if err != nil {
		return time.Time{}, nil, err
	}
	if info.Size() > maxTerms {
		return time.Time{}, nil, fmt.Errorf("%d bytes are too many", info.Size())
	}
	text, err := os.ReadFile(t.file())
	if err != nil {
		return time.Time{}, nil, err
	}
	return readTerms(text)
}

// readTerms reads what writeTerms wrote.
func readTerms(text []byte) (time.Time, *pb.Catalogue, error) {
	line, body, ok := bytes.Cut(text, []byte("\n"))
	var seconds int64
	var sum []byte
	if n, err := fmt.Sscanf(string(line)+"\n", termsFormat, &seconds, &sum); !ok || err != nil || n != 2 {
		return time.Time{}, nil, errors.New("the first line is not of this format")
	}
	if is := sha256.Sum256(body); !bytes.Equal(is[:], sum) {
		return time.Time{}, nil, errors.New("the checksum does not match")
	}
	catalogue := &pb.Catalogue{}
	if err := proto.Unmarshal(body, catalogue); err != nil {
		return time.Time{}, nil, fmt.Errorf("read the catalogue: %w", err)
	}
	if catalogue.GetPolicyVersion() < 1 {
		return time.Time{}, nil, errors.New("they have no policy version")
	}
	return time.Unix(seconds, 0), catalogue, nil
}

func writeTerms(at time.Time, catalogue *pb.Catalogue) ([]byte, error) {
	body, err := proto.Marshal(catalogue)
	if err != nil {
		return nil, err
	}
	return append(fmt.Appendf(nil, termsFormat, at.Unix(), sha256.Sum256(body)), body...), nil
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
	if err := t.write(now); err != nil {
		t.log.Warn("the terms could not be kept on disk", "file", t.file(), "cause", err)
	}
}

// write replaces the file at once or not at all.
func (t *keptTerms) write(now time.Time) error {
	text, err := writeTerms(now, t.catalogue)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(t.dir, termsFile+".*") // of mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), t.file())
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
