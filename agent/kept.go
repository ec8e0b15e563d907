package agent

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// keptFile is a file in Config.StateDir. It holds one line, which names the format, when its
// content was last known to be so and the checksum of what follows, and then that.
type keptFile struct {
	name string
	is   string // in the first line
	most int64  // bytes
}

func (f keptFile) in(dir string) string { return filepath.Join(dir, f.name) }

// format of the first line: seconds since 1970, SHA-256.
func (f keptFile) format() string { return "quotalease " + f.is + " 1 %d %x\n" }

// read returns what is in the file, or nothing if there is none. Content that is too old, or of
// the future, is an error as damage is.
func (f keptFile) read(dir string, now time.Time, maxAge time.Duration) (time.Time, []byte, error) {
	info, err := os.Stat(f.in(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, nil, nil
	}
	if err != nil {
		return time.Time{}, nil, err
	}
	if info.Size() > f.most {
		return time.Time{}, nil, fmt.Errorf("%d bytes are too many", info.Size())
	}
	text, err := os.ReadFile(f.in(dir))
	if err != nil {
		return time.Time{}, nil, err
	}
	at, body, err := f.unseal(text)
	if err == nil && (now.Sub(at) > maxAge || at.Sub(now) > maxAge) {
		err = fmt.Errorf("they are of %s", at.UTC().Format(time.RFC3339))
	}
	return at, body, err
}

// write replaces the file at once or not at all.
func (f keptFile) write(dir string, at time.Time, body []byte) error {
	t, err := os.CreateTemp(dir, f.name+".*") // of mode 0600
	if err != nil {
		return err
	}
	_, err = t.Write(f.seal(at, body))
	err = errors.Join(err, t.Sync(), t.Close())
	if err == nil {
		err = os.Rename(t.Name(), f.in(dir))
	}
	if err != nil {
		return errors.Join(err, os.Remove(t.Name()))
	}
	return nil
}

// unseal reads what seal wrote.
func (f keptFile) unseal(text []byte) (time.Time, []byte, error) {
	line, body, ok := bytes.Cut(text, []byte("\n"))
	var seconds int64
	var sum []byte
	if n, err := fmt.Sscanf(string(line)+"\n", f.format(), &seconds, &sum); !ok || err != nil || n != 2 {
		return time.Time{}, nil, errors.New("the first line is not of this format")
	}
	if is := sha256.Sum256(body); !bytes.Equal(is[:], sum) {
		return time.Time{}, nil, errors.New("the checksum does not match")
	}
	return time.Unix(seconds, 0), body, nil
}

func (f keptFile) seal(at time.Time, body []byte) []byte {
	return append(fmt.Appendf(nil, f.format(), at.Unix(), sha256.Sum256(body)), body...)
}
