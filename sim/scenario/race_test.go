//go:build race

package scenario

func init() { racing = true }
