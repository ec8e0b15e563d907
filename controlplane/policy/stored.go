package policy

import (
	"strconv"
	"strings"
	"time"
	"unicode"
)

// fileMark begins each file of a stored text. YAML sees a new document and a comment, so a
// stored text is itself a policy file. Nothing else in YAML can stand there: three dashes
// at the beginning of a line end any document.
const fileMark = "---\n# file: "

// Text returns the document's files joined to one text, for the log and for people.
func (d *Document) Text() string {
	var b strings.Builder
	for _, f := range d.files {
		if _, _, marked := readMark(string(f.Text), 0); !marked { // else it is a stored text already
			b.WriteString(fileMark)
			b.WriteString(markName(f.Name))
			b.WriteByte('\n')
		}
		b.Write(f.Text)
	}
	return b.String()
}

// ParseText reads a stored text. Overrides that have expired since are accepted.
func ParseText(text string) (*Document, error) {
	return Parse(splitText(text), time.Time{})
}

// splitText takes a stored text apart, so that faults name the files and lines that people
// wrote.
func splitText(text string) []File {
	var files []File
	name, begin := "policy", 0
	add := func(end int) {
		if begin < end || begin > 0 {
			files = append(files, File{Name: name, Text: []byte(text[begin:end])})
		}
	}
	for at := 0; at < len(text); {
		next, after, marked := readMark(text, at)
		if !marked {
			at = nextLine(text, at)
			continue
		}
		add(at)
		name, begin, at = next, after, after
	}
	add(len(text))
	return files
}

// readMark reads the mark at the beginning of a line, if Text could have written it, and
// returns where the file behind it begins.
func readMark(text string, at int) (name string, after int, ok bool) {
	if !strings.HasPrefix(text[at:], fileMark) {
		return "", at, false
	}
	begin := at + len(fileMark)
	after = nextLine(text, begin)
	mark := strings.TrimSuffix(text[begin:after], "\n")
	name = unmarkName(mark)
	return name, after, markName(name) == mark
}

// nextLine returns where the line after the one at i begins.
func nextLine(text string, i int) int {
	n := strings.IndexByte(text[i:], '\n')
	if n < 0 {
		return len(text)
	}
	return i + n + 1
}

// markName quotes names that a comment line could not carry.
func markName(name string) string {
	odd := func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }
	if name == "" || name[0] == '"' || strings.TrimSpace(name) != name || strings.ContainsFunc(name, odd) {
		return strconv.QuoteToASCII(name)
	}
	return name
}

func unmarkName(mark string) string {
	if name, err := strconv.Unquote(mark); err == nil && mark[0] == '"' {
		return name
	}
	return mark
}
