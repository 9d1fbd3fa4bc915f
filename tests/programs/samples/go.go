// Package shop sells.
package shop

import (
	"fmt"
	str "strings"
)

const (
	limit = iota
	other
)

// Shop has items.
type Shop struct {
	Name  string `json:"name"`
	items map[string][]int
	*base
}

type Seller interface {
	Sell(name string, count int) (price float64, err error)
}

// Sell takes items away.
// It may fail.
func (s *Shop) Sell(name string, count int) (float64, error) {
	found, ok := s.items[name]
	if !ok || len(found) < count {
		return 0, fmt.Errorf("no %q in %s {", name, s.Name)
	}
	check := func(n int) bool {
		return n > limit
	}
	for i, item := range found[:count] {
		switch {
		case check(item):
			defer s.log(i)
		default:
			go func() { s.done <- item }()
		}
	}
	return float64(count), nil
}

//go:noinline
func Map[K comparable, V any](from map[K]V, f func(V) V) map[K]V {
	to := make(map[K]V, len(from))
	var raw = `a
	( raw ] string`
	select {
	case v := <-channel:
		to[key] = f(v)
	}
	return to
}
