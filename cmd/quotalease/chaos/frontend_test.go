//go:build linux

package chaos

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
)

// message is one message of a Postgres client, as it was sent.
type message struct {
	bytes  []byte
	commit bool // runs COMMIT
	sync   bool // the server works on all before it and answers
}

// frontend cuts what a client sends into messages, and knows which of them run COMMIT, as
// text or as a statement that was prepared before.
type frontend struct {
	rest    []byte
	started bool
	commits map[string]bool // prepared statements, by name, that are COMMIT
}

// feed returns the messages that are complete with these bytes.
func (f *frontend) feed(b []byte) []message {
	f.rest = append(f.rest, b...)
	var whole []message
	for {
		head := 1 // the byte that tells the type
		if !f.started {
			head = 0
		}
		if len(f.rest) < head+4 {
			return whole
		}
		end := head + int(binary.BigEndian.Uint32(f.rest[head:]))
		if len(f.rest) < end {
			return whole
		}
		m := message{bytes: bytes.Clone(f.rest[:end])}
		if f.started {
			f.classify(&m)
		}
		f.started = true
		f.rest = f.rest[end:]
		whole = append(whole, m)
	}
}

func (f *frontend) classify(m *message) {
	body := m.bytes[5:]
	switch m.bytes[0] {
	case 'Q':
		text, _ := text(body)
		m.commit, m.sync = isCommit(text), true
	case 'P':
		name, rest := text(body)
		query, _ := text(rest)
		if f.commits == nil {
			f.commits = map[string]bool{}
		}
		f.commits[name] = isCommit(query)
	case 'B':
		_, rest := text(body) // the portal's name
		name, _ := text(rest)
		m.commit = f.commits[name]
	case 'S':
		m.sync = true
	}
}

// text reads up to the zero byte.
func text(b []byte) (string, []byte) {
	before, after, _ := bytes.Cut(b, []byte{0})
	return string(before), after
}

func isCommit(query string) bool {
	return bytes.HasSuffix(bytes.TrimSpace([]byte(query)), []byte("COMMIT"))
}

func typed(kind byte, body string) []byte {
	b := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4))
	return append(b, body...)
}

func TestCommitIsFoundInTheStream(t *testing.T) {
	t.Parallel()
	startup := binary.BigEndian.AppendUint32(nil, 8)
	startup = append(startup, 0, 3, 0, 0)
	sync := typed('S', "")
	for name, c := range map[string]struct {
		sent [][]byte
		want []int // positions of messages that run COMMIT
	}{
		"as text":             {[][]byte{startup, typed('Q', "-- name: commit\nCOMMIT\x00")}, []int{1}},
		"without a name":      {[][]byte{startup, typed('P', "\x00COMMIT\x00\x00\x00"), typed('B', "\x00\x00"), sync}, []int{2}},
		"prepared before":     {[][]byte{startup, typed('P', "s1\x00COMMIT\x00\x00\x00"), sync, typed('B', "\x00s1\x00"), sync, typed('B', "\x00s1\x00")}, []int{3, 5}},
		"name of another":     {[][]byte{startup, typed('P', "s1\x00COMMIT\x00"), typed('P', "s2\x00SELECT 1\x00"), typed('B', "\x00s2\x00"), sync}, nil},
		"word in a statement": {[][]byte{startup, typed('Q', "SELECT 'COMMIT' AS x\x00")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stream := bytes.Join(c.sent, nil)
			for _, size := range []int{1, 3, len(stream)} {
				var f frontend
				var got []message
				for chunk := range slices.Chunk(stream, size) {
					got = append(got, f.feed(chunk)...)
				}
				if len(got) != len(c.sent) {
					t.Fatalf("in chunks of %d: %d messages, want %d", size, len(got), len(c.sent))
				}
				for i, m := range got {
					if !bytes.Equal(m.bytes, c.sent[i]) {
						t.Errorf("message %d is %q, was sent as %q", i, m.bytes, c.sent[i])
					}
					if m.commit != slices.Contains(c.want, i) {
						t.Errorf("message %d: runs COMMIT is %v", i, m.commit)
					}
				}
			}
		})
	}
}
