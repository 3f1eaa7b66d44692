package kafka

import (
	"encoding/binary"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/internal/lograte"
)

// TestCase102_AFloodOfBadConnectionsWritesFewLines: whoever connects again and again, and is closed for the same reason each time, writes a few lines. The first ones say why,
// a later one says how many there would have been.
func TestCase102_AFloodOfBadConnectionsWritesFewLines(t *testing.T) {
	malformed := kmsg.NewRequestFormatter().AppendRequest(nil, &kmsg.MetadataRequest{Version: 1}, 1)
	binary.BigEndian.PutUint32(malformed[len(malformed)-4:], 1<<30)
	formatter := kmsg.NewRequestFormatter()
	for name, flood := range map[string]struct {
		send []byte
		says string
	}{
		"TLS":           {[]byte("\x16\x03\x01\x02\x00\x01"), "TLS"},
		"malformed":     {malformed, "malformed"},
		"not offered":   {formatter.AppendRequest(nil, &kmsg.MetadataRequest{Version: 14}, 1), "not offered"},
		"panics inside": {formatter.AppendRequest(nil, kmsg.NewPtrInitProducerIDRequest(), 1), "panic"}, // the fake broker has no producer ids
	} {
		t.Run(name, func(t *testing.T) {
			var later atomic.Int64
			now := time.Now()
			d := openDoor(t, Config{Now: func() time.Time { return now.Add(time.Duration(later.Load())) }})
			refused := func() {
				c := d.dial()
				if _, err := c.Write(flood.send); err != nil {
					t.Fatal(err)
				}
				c.closed()
				c.Close()
			}
			const connections = 250
			for range connections {
				refused()
			}
			log := strings.SplitAfter(d.log.String(), "level=")[1:]
			if len(log) > lograte.Lines || !strings.Contains(log[0], flood.says) {
				t.Errorf("%d connections wrote %d lines, the first: %s", connections, len(log), log[0])
			}
			later.Add(int64(lograte.Every))
			refused()
			told := regexp.MustCompile(lograte.Suppressed + `=(\d+)`).FindStringSubmatch(d.log.String())
			if told == nil || told[1] != strconv.Itoa(connections-lograte.Lines) {
				t.Errorf("later the log says of %d: %v", connections-lograte.Lines, told)
			}
		})
	}
}
