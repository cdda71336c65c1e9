package simulator

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
)

// BenchmarkDecide is the cost of an outcome itself, many callers at once.
func BenchmarkDecide(b *testing.B) {
	for _, mode := range []string{"memory", "disk"} {
		b.Run(mode, func(b *testing.B) {
			s := benchOpen(b, mode)
			var n atomic.Int64
			b.SetParallelism(256 / runtime.GOMAXPROCS(0))
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					id := strconv.FormatInt(n.Add(1), 10)
					if _, _, err := s.decide(call("key-"+id, "ch_"+id)); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkHTTP is a charge over loopback, client included, on 64 connections.
func BenchmarkHTTP(b *testing.B) {
	for _, mode := range []string{"memory", "disk"} {
		b.Run(mode, func(b *testing.B) {
			s := benchOpen(b, mode)
			srv := httptest.NewServer(s.Handler())
			defer srv.Close()
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
			defer client.CloseIdleConnections()
			var n atomic.Int64
			b.SetParallelism(64 / runtime.GOMAXPROCS(0))
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					id := strconv.FormatInt(n.Add(1), 10)
					req, err := http.NewRequest(http.MethodPost, srv.URL+"/v1/charges", bytes.NewBufferString(body("ch_"+id, 1250, "pm_card_visa")))
					if err != nil {
						b.Error(err)
						return
					}
					req.Header.Set("Idempotency-Key", "key-"+id)
					res, err := client.Do(req)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
					if res.StatusCode != http.StatusOK {
						b.Errorf("status %d", res.StatusCode)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "charges/s")
		})
	}
}

// BenchmarkNotices is a notice over loopback, receiver included.
func BenchmarkNotices(b *testing.B) {
	s := benchOpen(b, "disk")
	taken := make(chan struct{}, 1<<20)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		taken <- struct{}{}
	}))
	defer srv.Close()
	if err := s.SetNotices(Notices{Hold: true, Targets: []NoticeTarget{{URL: srv.URL, Secret: noticeSecret}}}); err != nil {
		b.Fatal(err)
	}
	for i := range b.N {
		if _, _, err := s.decide(call("", "ch_"+strconv.Itoa(i))); err != nil {
			b.Fatal(err)
		}
	}
	s.notices.look()
	b.ResetTimer()
	if err := s.SetNotices(Notices{Targets: []NoticeTarget{{URL: srv.URL, Secret: noticeSecret}}}); err != nil {
		b.Fatal(err)
	}
	for range b.N {
		<-taken
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "webhooks/s")
	closeNow(b, s)
}

// BenchmarkStatement is a line of a statement.
func BenchmarkStatement(b *testing.B) {
	s := benchOpen(b, "memory")
	for i := range b.N {
		if _, _, err := s.decide(call("", "ch_"+strconv.Itoa(i))); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	if err := s.WriteStatement(io.Discard, Statement{Format: "csv"}); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkMemory reports the bytes that an outcome takes for good, with keys of
// 64 bytes and references of 30.
func BenchmarkMemory(b *testing.B) {
	s := benchOpen(b, "memory")
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range b.N {
		if _, _, err := s.decide(call(fmt.Sprintf("%064d", i), fmt.Sprintf("ch_%027d", i))); err != nil {
			b.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(b.N), "B/outcome")
	runtime.KeepAlive(s)
}

func benchOpen(b *testing.B, mode string) *Simulator {
	b.Helper()
	if mode == "memory" {
		return open(b, Config{})
	}
	return open(b, Config{Dir: b.TempDir()})
}
