//go:build !race

package holder

const raceDetector = false
