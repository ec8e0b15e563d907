//go:build linux && race

package chaos

const raceDetector = true
