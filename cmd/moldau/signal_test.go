package main

import (
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestSecondSignalEndsAtOnce: two that come together, as timeout(1) sends them, are one.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal)
		cancelled, exited := false, -1
		go obey(signals, func() { cancelled = true }, func(code int) { exited = code })
		signals <- syscall.SIGTERM
		signals <- syscall.SIGTERM
		synctest.Wait()
		if !cancelled || exited != -1 {
			t.Fatalf("cancelled %v, exit %d: the first signal is for an orderly end", cancelled, exited)
		}
		time.Sleep(sameSignal)
		synctest.Wait()
		signals <- syscall.SIGTERM
		synctest.Wait()
		if exited != exitFailure {
			t.Errorf("exit %d after a second signal, want %d", exited, exitFailure)
		}
	})
}
