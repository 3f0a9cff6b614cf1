//go:build race

package cli

// raceDetector makes everything five to ten times slower.
const raceDetector = true
