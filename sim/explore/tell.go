package explore

import "fmt"

func (x *search) tell(path []step) []string {
	var lines []string
	for i, p := range path {
		lines = append(lines, fmt.Sprintf("%d. act %d of %d", i+1, p.act, p.of))
	}
	return lines
}
