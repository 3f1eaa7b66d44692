package sim

import (
	"strings"
	"testing"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/record"
)

// TestAStartNobodyDecided opens a log that begins above what anybody has deleted. That is right only where its broker led, and was deleting what the topic does not
// keep and what lies below the watermark, when the log failed.
func TestAStartNobodyDecided(t *testing.T) {
	for _, c := range []struct {
		name  string
		tries bool
		keeps string // retention.bytes
		short record.Offset
		wrong string
	}{
		{"nobody tried", false, "0", 0, "opens"},
		{"what the topic does not keep", true, "0", 0, ""},
		{"what the topic keeps", true, "-1", 0, "it keeps"},
		{"above the watermark", true, "0", 1, "above its watermark"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, tp, p := calmWorld(t)
			image := w.meta.state.Image()
			topic, _ := image.Topic(tp.Topic)
			res := w.meta.state.Apply(image.Index()+1, cluster.AlterConfigs{
				Resource: cluster.ConfigResource{Kind: cluster.ConfigTopic, Name: topic.Name}, Ops: []cluster.ConfigOp{{Key: "retention.bytes", Value: c.keeps}},
			})
			if res.Code != cluster.CodeNone {
				t.Fatal(res)
			}
			r := w.brokers[p.Leader].replica(tp)
			r.at.LogStart = r.at.HighWatermark
			l := w.check.ledgers[tp]
			if c.tries {
				l.tried[r.b.id] = retention{by: r.b.id, images: []*cluster.Image{w.meta.state.Image()}, wallMs: r.b.WallMs(), watermark: r.at.HighWatermark - c.short}
			}
			w.check.opensAt(r)
			if got := w.check.violation; (got == "") != (c.wrong == "") || !strings.Contains(got, c.wrong) {
				t.Errorf("%q, want %q", got, c.wrong)
			}
			if c.wrong == "" && l.start != r.at.LogStart {
				t.Errorf("deleted is what lies below %d, the log begins at %d", l.start, r.at.LogStart)
			}
		})
	}
}
