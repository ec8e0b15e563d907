package trace

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxLineBytes is the longest line that is read, its end included. Longer ones are
// malformed: a file without line ends must not be held in memory.
const MaxLineBytes = 64 << 10

var errLongLine = fmt.Errorf("line: at most %d bytes", MaxLineBytes)

var byteOrderMark = []byte("\xef\xbb\xbf")

// lines cuts a stream into lines in one fixed buffer.
type lines struct {
	buf   *bufio.Reader
	begun bool
}

func newLines(r io.Reader) *lines { return &lines{buf: bufio.NewReaderSize(r, MaxLineBytes)} }

// head returns what the buffer can show of the beginning, without consuming it.
func (l *lines) head() ([]byte, error) {
	b, err := l.buf.Peek(MaxLineBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return bytes.TrimPrefix(b, byteOrderMark), nil
}

// next returns the next line without its end. A line above MaxLineBytes is consumed whole
// and reported as errLongLine; after that the next one can be read.
func (l *lines) next() (string, error) {
	b, err := l.buf.ReadSlice('\n')
	long := false
	for errors.Is(err, bufio.ErrBufferFull) {
		long = true
		_, err = l.buf.ReadSlice('\n')
	}
	if err != nil && (!errors.Is(err, io.EOF) || (len(b) == 0 && !long)) {
		return "", err
	}
	if long {
		l.begun = true
		return "", errLongLine
	}
	if !l.begun {
		l.begun = true
		b = bytes.TrimPrefix(b, byteOrderMark)
	}
	return string(bytes.TrimRight(b, "\r\n")), nil
}
