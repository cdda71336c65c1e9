package node

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/homeward-io/homeward/payment/notice"
)

// CompensationSettings limit automatic refunds; see notice.Limits.
type CompensationSettings struct {
	// On: this node makes automatic refunds. homeward compensations stop holds those of
	// all nodes.
	On bool `koanf:"on"`
	// PerHour is the greatest number, SumPerHour the greatest sum of a currency, as
	// notice.Limits.Sum; Sums sets the latter for single currencies in their own minor
	// units: "jpy=5000000".
	PerHour    int      `koanf:"per_hour"`
	SumPerHour int64    `koanf:"sum_per_hour"`
	Sums       []string `koanf:"sums"`
}

// DefaultCompensations are notice.DefaultLimits.
func DefaultCompensations() CompensationSettings {
	l := notice.DefaultLimits()
	return CompensationSettings{On: true, PerHour: l.Count, SumPerHour: l.Sum, Sums: []string{}}
}

func (s CompensationSettings) validate() error {
	var errs []error
	if s.PerHour < 1 || s.PerHour > notice.MaxCount {
		errs = append(errs, fmt.Errorf("settings: compensations.per_hour must be 1 to %d, is %d; compensations.on: false stops them", notice.MaxCount, s.PerHour))
	}
	if s.SumPerHour < 1 {
		errs = append(errs, fmt.Errorf("settings: compensations.sum_per_hour must be at least 1, is %d", s.SumPerHour))
	}
	if _, err := notice.ParseSums(s.Sums); err != nil {
		errs = append(errs, fmt.Errorf("settings: compensations.sums: %w", err))
	}
	return errors.Join(errs...)
}

func (s CompensationSettings) brakes(store notice.BrakeStore, log *slog.Logger) *notice.Brakes {
	sums, _ := notice.ParseSums(s.Sums) // validated where they are read
	return &notice.Brakes{
		Store: store, Off: !s.On, Logger: log,
		Limits: notice.Limits{Count: s.PerHour, Sum: s.SumPerHour, Sums: sums},
	}
}
