package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/moldau-log/moldau/cluster"
)

// DescribeLogDirs (35), versions 0 to 4: sizes of the logs on the answering broker, which has one directory (KIP-113).
//
// v2 flexible; v3 a top-level error; v4 the disk's total and usable bytes (KIP-827). Null asks for all topics.
func (c *conn) describeLogDirs(_ context.Context, req *kmsg.DescribeLogDirsRequest, _ *slot) (*kmsg.DescribeLogDirsResponse, error) {
	resp := req.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir, dir.TotalBytes, dir.UsableBytes = c.s.cfg.DataDir, -1, -1
	dir.Topics = []kmsg.DescribeLogDirsResponseDirTopic{}
	if free, total, err := c.s.broker.DiskSpace(); err == nil {
		dir.TotalBytes, dir.UsableBytes = total, free
	}
	img := c.s.broker.Image()
	if req.Topics == nil {
		for t := range img.Topics() {
			c.logsOf(img, t, nil, &dir)
		}
	}
	asked := distinct(req.Topics, func(t *kmsg.DescribeLogDirsRequestTopic) string { return t.Topic })
	for i := range asked {
		if t, ok := img.TopicByName(asked[i].Topic); ok {
			c.logsOf(img, t, asked[i].Partitions, &dir)
		}
	}
	resp.Dirs = []kmsg.DescribeLogDirsResponseDir{dir}
	return resp, nil
}

// logsOf adds the local logs of a topic; nil asks for all its partitions.
func (c *conn) logsOf(img *cluster.Image, t *cluster.Topic, wanted []int32, dir *kmsg.DescribeLogDirsResponseDir) {
	var local []cluster.TopicPartition
	asked := among(wanted)
	for n, p := range img.PartitionsOf(t.ID) {
		if p.HasReplica(c.s.broker.ID()) && asked(n) {
			local = append(local, cluster.TopicPartition{Topic: t.ID, Partition: n})
		}
	}
	if len(local) == 0 {
		return
	}
	o := kmsg.NewDescribeLogDirsResponseDirTopic()
	o.Topic = t.Name
	for _, st := range c.s.broker.LocalStatus(local) {
		p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		p.Partition, p.Size = st.Partition.Partition, st.SizeBytes
		o.Partitions = append(o.Partitions, p)
	}
	dir.Topics = append(dir.Topics, o)
}
