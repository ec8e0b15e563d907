package explore

import "fmt"

func (x *search) tell(n int32, last *step) []string {
	var lines []string
	path := x.pathTo(n)
	if last != nil {
		path = append(path, *last)
	}
	for i, p := range path {
		lines = append(lines, fmt.Sprintf("%d. act %d of %d", i+1, p.act, p.of))
	}
	return lines
}
