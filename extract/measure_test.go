package extract_test

import (
	"os"
	"testing"
	"time"
	"github.com/fetcherhq/fetcher/extract"
	"syscall"
	"runtime"
	"runtime/debug"
	"strings"
	"strconv"
)
func hwm(t testing.TB) int {
	text, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kib, _ := strconv.Atoi(strings.Fields(rest)[0])
	return kib >> 10
}


func TestMeasure(t *testing.T) {
	if os.Getenv("MEASURE") == "" { t.Skip() }
	l := newLive(t, mixed(20_000), "ANALYZE")
	idle := residentMiB(t)
	for _, n := range []int{1, 2} {
		peak := 0
		j := job(l.ds("d", "big"))
		if n == 2 { j.Key = "k2" }
		var u0, u1 syscall.Rusage
		syscall.Getrusage(0, &u0)
		start := time.Now()
		c := 0
		r, err := l.Run(t.Context(), j, func(extract.Progress) { c++; if c%50 == 0 { peak = max(peak, residentMiB(t)) } })
		if err != nil { t.Fatal(err) }
		d := time.Since(start)
		syscall.Getrusage(0, &u1)
		cpu := float64(u1.Utime.Nano()+u1.Stime.Nano()-u0.Utime.Nano()-u0.Stime.Nano())/1e9
		t.Logf("%d rows %d MB in %s: %.0f rows/s, cpu %.2fs (%.2f cores), RSS idle %d peak %d MiB", r.Rows, r.Facts.SizeBytes>>20, d, float64(r.Rows)/d.Seconds(), cpu, cpu/d.Seconds(), idle, peak)
	}
	l2 := newLive(t, wideTable)
	runtime.GC(); debug.FreeOSMemory()
	idle, peak := residentMiB(t), 0
	os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o600)
	for i := range 3 {
		j := job(l2.ds("d", "wide"))
		j.Key = string(rune('a'+i))
		if _, err := l2.Run(t.Context(), j, func(extract.Progress) { peak = max(peak, residentMiB(t)); var m runtime.MemStats; runtime.ReadMemStats(&m); t.Logf("rss %d alloc %d inuse %d idle %d released %d gc %d", residentMiB(t), m.HeapAlloc>>20, m.HeapInuse>>20, m.HeapIdle>>20, m.HeapReleased>>20, m.NumGC) }); err != nil { t.Fatal(err) }
	}
	t.Logf("wide: hwm %d", hwm(t))
	t.Logf("wide: idle %d peak %d MiB", idle, peak)
}
