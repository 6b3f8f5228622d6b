package bench

import (
	"os"
	"testing"
	"time"
)

// startSuite starts managers against running databases that are migrated already.
func startSuite(t *testing.T, s *section) {
	site := newSite(t)
	s.measure(t, measurement{
		name: "manager", rounds: 5, figures: []figure{{"start to ready", "ms", atMost(1000)}, {"idle memory", "MiB", bound{}}},
		product: func(t *testing.T) []float64 {
			began := time.Now()
			_, p := s.world.manager(t, site.env)
			ready := time.Since(began)
			return []float64{float64(ready.Microseconds()) / 1000, float64(resident(t, p.PID())) / (1 << 20)}
		},
	})
	st, err := os.Stat(s.world.bin.Path)
	check(t, err)
	s.notef("The binary has %.1f MiB with its symbols.", float64(st.Size())/(1<<20))
}
