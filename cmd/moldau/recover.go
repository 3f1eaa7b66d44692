package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/moldau-log/moldau/cluster"
	"github.com/moldau-log/moldau/controller"
	"github.com/moldau-log/moldau/internal/vfs"
	"github.com/moldau-log/moldau/segment"
)

// recoverFlags are the flags of `moldau cluster recover`.
type recoverFlags struct {
	data, address, backup string
	rejoin, execute       bool
}

func newClusterRecover(a *app) *cobra.Command {
	var f recoverFlags
	cmd := &cobra.Command{
		Use:   "recover --data DIR",
		Short: "Bring a cluster back that lost the majority of its voters for good; offline, on one stopped broker",
		Long: `When a majority of the voters is lost for good, no controller can be elected. This command works on the data directory of a stopped broker.

1. Stop all brokers. Run it with --data on each that is left: it shows how new its metadata is and changes nothing.
2. On the one with the highest term and, among those, the highest index: --advertise-peer HOST:PORT --execute makes it the only voter.
   With --backup FILE it takes the metadata from a backup instead; the Raft files must have been moved away first.
3. On each other broker that is left: --rejoin --execute makes it forget its votes and join again. It keeps its records.
4. Start the brokers. More voters follow by themselves.
5. cluster partitions --unhealthy shows the partitions that stay without a leader, because only lost brokers were sure to have all of their records: cluster elect --unclean takes a
   replica that is left.

The lost brokers must never run again with their old directories, or the cluster splits in two. No record is touched.`,
		Example: "  moldau cluster recover --data /var/lib/moldau\n  moldau cluster recover --data /var/lib/moldau --advertise-peer broker-1:9093 --execute\n" +
			"  moldau cluster recover --data /var/lib/moldau --rejoin --execute",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.recoverCluster(f) },
	}
	cmd.Flags().StringVar(&f.data, "data", "", "data directory of the stopped broker")
	cmd.Flags().StringVar(&f.address, "advertise-peer", "", "address under which other brokers reach this broker, host:port")
	cmd.Flags().StringVar(&f.backup, "backup", "", "file of `moldau cluster backup` to take the metadata from")
	cmd.Flags().BoolVar(&f.rejoin, "rejoin", false, "forget the old votes and join the recovered cluster")
	cmd.Flags().BoolVar(&f.execute, "execute", false, "do it; without it nothing is changed")
	exclusive(cmd, "backup", "rejoin")
	return cmd
}

// recoverShape is `moldau cluster recover`.
type recoverShape struct {
	Broker        int32   `json:"broker"`
	ClusterID     string  `json:"cluster_id"`
	LastTerm      uint64  `json:"last_term"`
	LastIndex     uint64  `json:"last_index"`
	SnapshotIndex uint64  `json:"snapshot_index"`
	Voters        []int32 `json:"voters"`
	Action        string  `json:"action"` // inspect, recover, restore or rejoin
	Executed      bool    `json:"executed"`
}

func (a *app) recoverCluster(f recoverFlags) error {
	if f.data == "" {
		return usage("--data is missing: the data directory of the stopped broker")
	}
	if f.execute && !f.rejoin && f.address == "" {
		return usage("--advertise-peer is missing: the address under which other brokers reach this broker, host:port")
	}
	if _, err := os.Stat(f.data); err != nil {
		return dumpError(err)
	}
	cfg, err := offlineConfig(f)
	if err != nil {
		return err
	}
	lock, err := segment.LockDir(vfs.OS{}, f.data)
	if err != nil {
		return hinted(err, "Stop the broker first.")
	}
	defer lock.Close()
	shape, err := runRecovery(cfg, f)
	if err != nil {
		return err
	}
	return a.show(viewRecovery(shape))
}

// brokerMeta is what the server wrote about the owner of a data directory.
type brokerMeta struct {
	Broker    int32  `json:"broker"`
	Directory string `json:"directory_id"`
	Cluster   string `json:"cluster_id"`
}

// offlineConfig is the configuration of the stopped broker's Raft files.
func offlineConfig(f recoverFlags) (controller.Config, error) {
	cfg := controller.DefaultConfig()
	path := filepath.Join(f.data, brokerFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return cfg, notFound("%s is not the data directory of a broker: it has no %s", f.data, brokerFile)
	}
	if err != nil {
		return cfg, err
	}
	var meta brokerMeta
	if err := json.Unmarshal(text, &meta); err != nil {
		return cfg, damagedIdentity(path, err)
	}
	cfg.Broker, cfg.Dir, cfg.Address = cluster.BrokerID(meta.Broker), filepath.Join(f.data, "raft"), f.address
	if cfg.Address == "" {
		cfg.Address = "localhost:9093" // not used where nothing is written
	}
	if cfg.Directory, err = cluster.ParseUUID(meta.Directory); err != nil {
		return cfg, damagedIdentity(path, fmt.Errorf("directory id: %w", err))
	}
	if meta.Cluster != "" {
		if cfg.Cluster, err = cluster.ParseUUID(meta.Cluster); err != nil {
			return cfg, damagedIdentity(path, fmt.Errorf("cluster id: %w", err))
		}
	}
	return cfg, cfg.Validate()
}

func damagedIdentity(path string, why error) error {
	return hinted(fmt.Errorf("%s is damaged: %w", path, why), "docs/operations.md, \"A damaged small file\", says how to write it anew.")
}

func runRecovery(cfg controller.Config, f recoverFlags) (recoverShape, error) {
	s := recoverShape{Broker: int32(cfg.Broker), ClusterID: cfg.Cluster.String(), Voters: []int32{}, Action: "inspect", Executed: f.execute}
	switch {
	case f.backup != "":
		s.Action = "restore"
		if !f.execute {
			return s, nil
		}
		backup, err := os.Open(f.backup)
		if err != nil {
			return s, dumpError(err)
		}
		defer backup.Close()
		return s, controller.RestoreBackup(cfg, backup)
	case f.rejoin:
		s.Action = "rejoin"
		if !f.execute {
			return s, nil
		}
		return s, controller.Forget(cfg)
	}
	info, err := controller.Inspect(cfg)
	if err != nil {
		return s, err
	}
	s.ClusterID, s.LastTerm, s.LastIndex, s.SnapshotIndex = info.Cluster.String(), uint64(info.LastTerm), info.LastIndex, info.SnapshotIndex
	for _, v := range info.Voters {
		s.Voters = append(s.Voters, int32(v))
	}
	if f.execute {
		s.Action = "recover"
		return s, controller.RecoverCluster(cfg)
	}
	return s, nil
}

func viewRecovery(s recoverShape) view {
	done := "nothing was changed; --execute does it"
	if s.Executed {
		done = "done"
	}
	v := view{fields: []field{{"broker", number(s.Broker)}, {"cluster", s.ClusterID}}, names: []string{number(s.Broker)}, value: s}
	if s.Action == "inspect" || s.Action == "recover" {
		v.fields = append(v.fields,
			field{"last term", fmt.Sprint(s.LastTerm)}, field{"last index", fmt.Sprint(s.LastIndex)}, field{"snapshot index", fmt.Sprint(s.SnapshotIndex)},
			field{"voters", orNone(strings.TrimSpace(ids(s.Voters)))})
	}
	v.fields = append(v.fields, field{s.Action, done})
	return v
}
