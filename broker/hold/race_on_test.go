//go:build race

package hold

// raceDetector makes sync.Pool drop things at random, so that allocations
// cannot be counted.
const raceDetector = true
