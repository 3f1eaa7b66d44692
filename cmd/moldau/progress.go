package main

import (
	"fmt"
	"sync"
	"time"
)

// progressEvery is how often a progress line is drawn again.
const progressEvery = 500 * time.Millisecond

// progress draws a line on a person's screen until the returned function is called; elsewhere it draws nothing.
func (a *app) progress(text func() string) (stop func()) {
	if !isTerminal(a.err) || isTerminal(a.in) {
		return func() {}
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		drawn := false
		for {
			select {
			case <-tick.C:
				fmt.Fprintf(a.err, "\r\x1b[K%s", text())
				drawn = true
			case <-done:
				if drawn {
					fmt.Fprint(a.err, "\r\x1b[K")
				}
				return
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}
