package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	moldauv1 "github.com/moldau-log/moldau/proto/moldau/v1"

	"github.com/moldau-log/moldau/internal/history"
)

// replicaChunk bounds the records of one event about a replica's log.
const replicaChunk = 5000

// readDisks stops every broker and writes what its disk has into the history.
func (s *soak) readDisks() error {
	names, err := s.topicIDs()
	if err != nil {
		return err
	}
	for _, n := range s.cluster.nodes {
		s.report.rss(n)
	}
	if err := s.stopAll(); err != nil {
		return err
	}
	for _, n := range s.cluster.nodes {
		s.report.readLog(n)
		root := filepath.Join(n.Data(), "partitions")
		dirs, err := os.ReadDir(root)
		if err != nil {
			return fmt.Errorf("soak: %w", err)
		}
		for _, dir := range dirs {
			id, number, _ := cutLast(dir.Name(), "-")
			topic, ok := names[id]
			if !ok {
				continue // of a topic that has been deleted
			}
			var p int32
			if _, err := fmt.Sscan(number, &p); err != nil {
				return fmt.Errorf("soak: directory %s: %w", dir.Name(), err)
			}
			if err := s.dump(n, filepath.Join(root, dir.Name()), topic, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// stopAll is an orderly stop of all at once: none can move its leaderships away, and each says so in time.
func (s *soak) stopAll() error {
	all := make([]int, len(s.cluster.nodes))
	for i := range all {
		all[i] = i
	}
	return (&nemesis{soak: s}).each(all, (*node).terminate)
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// topicIDs gives the names of the run's topics by their ids.
func (s *soak) topicIDs() (map[string]string, error) {
	resp, err := s.cluster.admin.ListTopics(s.ctx, new(moldauv1.ListTopicsRequest))
	if err != nil {
		return nil, fmt.Errorf("soak: %w", err)
	}
	out := map[string]string{}
	for _, t := range resp.GetTopics() {
		if s.topics.Partitions(t.GetTopic()) > 0 {
			out[t.GetTopicId()] = t.GetTopic()
		}
	}
	return out, nil
}

// dumped is a line of `moldau log dump --records`, which docs/cli.md specifies: a batch, a record of it, or damage.
type dumped struct {
	Epoch  int32  `json:"leader_epoch"`
	Last   int64  `json:"last_offset"`
	CRC    string `json:"crc"` // hexadecimal
	Valid  *bool  `json:"valid"`
	Offset *int64 `json:"offset"`
	Value  string `json:"value"`
	Damage string `json:"damage"`
}

// lastBase is the offset that the last segment begins with: the end of a log whose last segment is empty.
func lastBase(dir string) (int64, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(files) == 0 {
		return 0, errors.Join(fmt.Errorf("soak: %s holds no segment", dir), err)
	}
	base, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(slices.Max(files)), ".log"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("soak: %w", err)
	}
	return base, nil
}

// dump writes the records of one replica into the history.
func (s *soak) dump(n *node, dir, topic string, partition int32) error {
	cmd := exec.Command(filepath.Join(s.bin, "moldau"), "log", "dump", dir, "--records", "-o", "jsonl")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("soak: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("soak: %w", err)
	}
	e := history.Event{Client: fmt.Sprint("disk-", n.ID), Type: history.OK, Kind: history.Replica, Topic: topic, Broker: int32(n.ID)}
	put := func() {
		e.Op++
		e.Time = history.Now()
		s.rec.Write(e)
		e.Records = e.Records[:0]
	}
	var batch dumped
	end, err := lastBase(dir)
	if err != nil {
		return err
	}
	lines := json.NewDecoder(out)
	for {
		var d dumped
		if err = lines.Decode(&d); err != nil {
			break
		}
		switch {
		case d.Damage != "" || (d.Valid != nil && !*d.Valid):
			s.report.fail("broker %d: %s: damage on disk after an orderly stop: %s", n.ID, dir, d.Damage)
		case d.Offset == nil:
			batch, end = d, d.Last+1
		default:
			value, err := base64.StdEncoding.DecodeString(d.Value)
			if err != nil {
				return fmt.Errorf("soak: dump of %s: %w", dir, err)
			}
			crc, err := strconv.ParseUint(batch.CRC, 16, 32)
			if err != nil {
				return fmt.Errorf("soak: dump of %s: %w", dir, err)
			}
			e.Records = append(e.Records, history.Record{Topic: topic, Partition: partition, Offset: *d.Offset, Epoch: batch.Epoch, CRC: uint32(crc), Value: history.Describe(value)})
			s.report.onDisk++
		}
		if len(e.Records) >= replicaChunk {
			put()
		}
	}
	e.Records = append(e.Records, history.Record{Topic: topic, Partition: partition, Offset: end, Epoch: history.Unknown}) // where the log ends, also of an empty one
	if !errors.Is(err, io.EOF) {
		_ = cmd.Process.Kill() // nobody reads its output any more
		return errors.Join(fmt.Errorf("soak: dump of %s: %w", dir, err), cmd.Wait())
	}
	put()
	return cmd.Wait()
}
