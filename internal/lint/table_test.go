package lint

// Rule is one row of the import table. A package that is not listed is an error, so that a new room in the house is a decision.
type Rule struct {
	// Pure packages decide and nothing else: no clock, file, socket, goroutine, lock, log or chance.
	Pure bool
	// Imports are the packages of this module that may be imported, relative to its root. "..." at the end matches sub-packages.
	// Every row may import internal/invariant and internal/planted.
	Imports []string
	// Modules are the third-party modules that non-test files may import, by path prefix.
	Modules []string
}

const (
	radix    = "github.com/hashicorp/go-immutable-radix/v2"
	xsys     = "golang.org/x/sys"
	grpcMod  = "google.golang.org/grpc"
	protoMod = "google.golang.org/protobuf"
	genproto = "google.golang.org/genproto"
)

// internals are the leaf packages below every ring.
var internals = []string{"internal/vfs", "internal/meter", "internal/invariant"}

// table is the import table: the layers of ARCHITECTURE.md, row by row.
var table = map[string]Rule{
	// L0
	"record":             {Imports: []string{"internal/budget"}, Modules: []string{"github.com/golang/snappy", "github.com/pierrec/lz4/v4", "github.com/klauspost/compress"}},
	"internal/vfs":       {Modules: []string{xsys}},
	"internal/invariant": {},
	"internal/planted":   {},
	"internal/meter":     {},
	"internal/budget":    {},
	"internal/lograte":   {},
	"internal/conns":     {},
	"internal/sendfile":  {Modules: []string{xsys}},
	"internal/history":   {Modules: []string{xsys}},
	"internal/grpcframe": {Imports: []string{"proto/moldau/v1"}, Modules: []string{grpcMod, protoMod}},
	// L1
	"cluster":                {Imports: []string{"record"}, Modules: []string{radix}},
	"internal/history/check": {Imports: []string{"internal/history"}},
	// L2
	"internal/admission":        {Imports: []string{"record", "cluster"}},
	"segment":                   {Imports: join(internals, "record")},
	"replication":               {Pure: true, Imports: []string{"record", "cluster", "replication/session"}},
	"replication/session":       {Pure: true, Imports: []string{"record", "cluster"}},
	"controller/state":          {Pure: true, Imports: []string{"record", "cluster", "controller/placement"}, Modules: []string{radix}},
	"controller/placement":      {Pure: true, Imports: []string{"record", "cluster"}},
	"controller/driver":         {Pure: true, Imports: []string{"record", "cluster", "controller/placement", "controller/state"}},
	"controller/codec":          {Imports: []string{"record", "cluster", "proto/..."}, Modules: []string{protoMod}},
	"consumergroup/group":       {Pure: true, Imports: []string{"record", "cluster", "consumergroup/assignor"}},
	"consumergroup/assignor":    {Pure: true, Imports: []string{"record", "cluster"}},
	"consumergroup/coordinator": {Pure: true, Imports: []string{"record", "cluster", "consumergroup/group"}},
	"proto/moldau/v1":           {Modules: []string{grpcMod, protoMod}},
	"proto/moldau/peer/v1":      {Modules: []string{protoMod}},
	"proto/moldau/metadata/v1":  {Modules: []string{protoMod}},
	// L3
	"partition":           {Imports: join(internals, "internal/lograte", "segment", "replication", "replication/session", "replication/fetcher", "record", "cluster")},
	"replication/fetcher": {Imports: join(internals, "replication", "replication/session", "record", "cluster")},
	"controller": {Imports: join(internals, "controller/state", "controller/placement", "controller/driver", "controller/codec", "cluster", "record"),
		Modules: []string{"github.com/hashicorp/raft", "github.com/hashicorp/raft-boltdb/v2", "github.com/hashicorp/raft-autopilot", "github.com/hashicorp/go-hclog", "go.etcd.io/bbolt"}},
	"consumergroup": {Imports: join(internals, "internal/lograte", "consumergroup/group", "consumergroup/assignor", "consumergroup/coordinator", "record", "cluster")},
	// L4
	"broker": {Imports: join(internals, "partition", "segment", "replication/session", "replication/fetcher", "controller", "controller/placement", "consumergroup", "consumergroup/...", "cluster", "record")},
	// L5
	"grpcapi": {Imports: []string{"broker", "consumergroup", "record", "cluster", "internal/admission", "internal/budget", "internal/conns", "internal/meter", "internal/lograte", "internal/grpcframe", "proto/moldau/v1"}, Modules: []string{grpcMod, protoMod, genproto}},
	"kafka":   {Imports: []string{"broker", "consumergroup", "record", "cluster", "internal/admission", "internal/budget", "internal/conns", "internal/meter", "internal/lograte", "internal/sendfile"}, Modules: []string{"github.com/twmb/franz-go/pkg/kmsg"}},
	"peer": {Imports: join(internals, "internal/lograte", "internal/sendfile", "broker", "replication", "replication/session", "replication/fetcher", "controller", "cluster", "record", "proto/moldau/peer/v1", "controller/codec"),
		Modules: []string{protoMod, xsys, "github.com/hashicorp/raft"}},
	"httpapi": {Imports: []string{"broker", "cluster", "internal/conns", "internal/lograte", "internal/meter"}, Modules: []string{"github.com/prometheus/client_golang"}},
	"client":  {Imports: []string{"proto/moldau/v1", "record", "internal/grpcframe"}, Modules: []string{grpcMod, protoMod, genproto}},
	// L6
	"config": {Imports: []string{"server", "broker", "partition", "segment", "controller", "consumergroup", "cluster", "grpcapi", "httpapi", "peer"},
		Modules: []string{"github.com/spf13/viper", "github.com/spf13/pflag", "github.com/go-viper/mapstructure/v2"}},
	"server": {Imports: join(internals, "internal/conns", "broker", "grpcapi", "kafka", "httpapi", "peer", "controller", "consumergroup", "config", "partition", "segment", "cluster", "record", "replication/fetcher")},
	"sim":    {Imports: join(internals, "replication", "replication/session", "replication/fetcher", "partition", "segment", "record", "cluster", "controller/...", "consumergroup", "consumergroup/...")},
	// L7: everything
	"moldautest":     {Imports: []string{"..."}, Modules: []string{""}},
	"cmd/moldau":     {Imports: []string{"..."}, Modules: []string{""}},
	"cmd/bench":      {Imports: []string{"..."}, Modules: []string{""}},
	"cmd/check":      {Imports: []string{"internal/history/check"}},
	"cmd/sim":        {Imports: []string{"..."}, Modules: []string{""}},
	"test/e2e":       {Imports: []string{"..."}, Modules: []string{""}},
	"test/soak":      {Imports: []string{"..."}, Modules: []string{""}},
	"test/soak/plan": {},
	"test/soak/rig":  {Modules: []string{xsys}},
	"test/soak/load": {Imports: []string{"client", "internal/history", "proto/moldau/v1"}, Modules: []string{"github.com/twmb/franz-go"}},
	// The differential check speaks raw requests, in the codec that only package kafka imports otherwise.
	"test/differential": {Imports: []string{"record"}, Modules: []string{"github.com/twmb/franz-go/pkg/kmsg"}},
	"internal/lint":     {},
	// What finds the planted bugs; tests alone import it.
	"internal/planted/found": {Imports: []string{"internal/planted"}},
}

func join(a []string, b ...string) []string { return append(append([]string{}, a...), b...) }
