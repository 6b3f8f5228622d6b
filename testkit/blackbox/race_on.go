//go:build race

package blackbox

// raceEnabled: the binary is built with the race detector when its caller is.
const raceEnabled = true
