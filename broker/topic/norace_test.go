//go:build !race

package topic_test

// raceDetector: histories of one goroutine show it nothing and are ten times slower.
const raceDetector = false
