package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// other is a valid value for every key that is not its default.
var other = map[string]string{
	"id": "7", "data": "/srv/log", "seeds": "a:9093,b:9093", "bootstrap-expect": "2", "rack": "r1",
	"kafka.addr": "127.0.0.1:1", "kafka.advertise": "h:1", "grpc.addr": "127.0.0.1:2", "grpc.advertise": "h:2",
	"peer.addr": "127.0.0.1:3", "peer.advertise": "h:3", "http.addr": "127.0.0.1:4", "http.advertise": "h:4",
	"log.level": "debug", "log.format": "json", "topic.partitions": "9", "topic.replication-factor": "2", "topic.auto-create": "true",
	"listeners": "a://h:5,b://:6", "advertised-listeners": "a://h:7",
	"grpc-reflection":       "true",
	"storage.flush-workers": "3", "storage.retention-check": "90s", "storage.reserve-bytes": "1MiB", "replica.lag-max": "4s",
	"session.heartbeat": "100ms", "session.timeout": "2s", "group.offsets-retention": "3d", "group.max-members": "5",
	"limits.max-request-bytes": "2MiB", "limits.max-in-flight-bytes": "4MiB", "shutdown.drain": "3s",
}

func flagsWith(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(flags, Default())
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return flags
}

func fileWith(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "moldau.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// yamlFor nests a dotted path.
func yamlFor(path, text string) string {
	section, leaf, nested := strings.Cut(path, ".")
	if nested {
		return fmt.Sprintf("%s:\n  %s: %q\n", section, leaf, text)
	}
	return fmt.Sprintf("%s: %q\n", path, text)
}

// rest are settings that make the value of one key valid by itself.
func rest(path string) string {
	switch path {
	case "seeds":
		return "bootstrap-expect: 2\npeer: {addr: '127.0.0.1:3'}\n"
	case "bootstrap-expect":
		return "seeds: ['a:9093']\npeer: {addr: '127.0.0.1:3'}\n"
	case "advertised-listeners":
		return "listeners: ['a://:5']\n"
	case "limits.max-in-flight-bytes":
		return "limits: {max-request-bytes: 1MiB}\n"
	}
	return ""
}

// TestEveryKeyComesFromFlagEnvironmentAndFile sets each key in each way and looks for it in the struct.
func TestEveryKeyComesFromFlagEnvironmentAndFile(t *testing.T) {
	for _, k := range Keys() {
		text, ok := other[k.Path]
		if !ok {
			t.Errorf("%s: the test has no value for it", k.Path)
			continue
		}
		if k.Doc == "" {
			t.Errorf("%s: has no doc tag", k.Path)
		}
		base := rest(k.Path)
		byFile := base + yamlFor(k.Path, text)
		if k.Path == "limits.max-in-flight-bytes" {
			byFile = "limits: {max-request-bytes: 1MiB, max-in-flight-bytes: 4MiB}\n"
		}
		for name, from := range map[string]Sources{
			"flag":        {Flags: flagsWith(t, "--"+k.Flag+"="+text), File: fileWith(t, base)},
			"environment": {Environ: []string{"PATH=/bin", k.Env + "=" + text}, File: fileWith(t, base)},
			"file":        {Flags: flagsWith(t), File: fileWith(t, byFile)},
		} {
			cfg, _, err := Load(from)
			if err != nil {
				t.Errorf("%s by %s: %v", k.Path, name, err)
				continue
			}
			if got := format(reflect.ValueOf(cfg).FieldByIndex(k.index), k.Kind); got != strings.ReplaceAll(text, "90s", "1m30s") {
				t.Errorf("%s by %s: got %q, want %q", k.Path, name, got, text)
			}
		}
	}
}

// TestListFlagsAddUp: --seeds a --seeds b names both. Of other flags the last one counts.
func TestListFlagsAddUp(t *testing.T) {
	flags := pflag.NewFlagSet("t", pflag.ContinueOnError)
	AddFlags(flags, Default())
	if err := flags.Parse([]string{"--seeds", "a:1,b:2", "--seeds", "c:3", "--bootstrap-expect", "2", "--bootstrap-expect", "3"}); err != nil {
		t.Fatal(err)
	}
	cfg, _, err := Load(Sources{Flags: flags})
	if err != nil && !strings.Contains(err.Error(), "peer.advertise") {
		t.Fatal(err)
	}
	if !slices.Equal(cfg.Seeds, []string{"a:1", "b:2", "c:3"}) || cfg.BootstrapExpect != 3 {
		t.Errorf("seeds %v, expect %d", cfg.Seeds, cfg.BootstrapExpect)
	}
}

func TestPrecedence(t *testing.T) {
	file := fileWith(t, "rack: file\nlog: {level: error}\ntopic: {partitions: 3}\n")
	env := []string{"MOLDAU_RACK=env", "MOLDAU_LOG_LEVEL=warn"}
	cfg, _, err := Load(Sources{Flags: flagsWith(t, "--rack", "flag"), Environ: env, File: file})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Rack != "flag" || cfg.Log.Level != "warn" || cfg.Topic.Partitions != 3 || cfg.Replica.LagMax != 10*time.Second {
		t.Errorf("flag > env > file > default does not hold: %+v", cfg)
	}
}

func TestDefaultsAreValidAndStay(t *testing.T) {
	cfg, warnings, err := Load(Sources{Flags: flagsWith(t)})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%v %v", err, warnings)
	}
	if !reflect.DeepEqual(cfg, Default()) {
		t.Errorf("got %+v, want the defaults", cfg)
	}
}

func TestListsMayBeYAMLLists(t *testing.T) {
	cfg, _, err := Load(Sources{File: fileWith(t, "seeds: [a:1, b:2]\nbootstrap-expect: 2\npeer:\n  advertise: a:1\n")})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a:1", "b:2"}; !reflect.DeepEqual(cfg.Seeds, want) {
		t.Errorf("seeds %v, want %v", cfg.Seeds, want)
	}
}

func TestRefusalsSayKeySourceAndRemedy(t *testing.T) {
	for _, c := range []struct {
		name, file string
		args, env  []string
		want       []string
	}{
		{"misspelt key", "boostrap-expect: 3\n", nil, nil, []string{"boostrap-expect: unknown key", "did you mean bootstrap-expect?"}},
		{"misspelt nested key", "session: {timout: 3s}\n", nil, nil, []string{"session.timout: unknown key", "did you mean session.timeout?"}},
		{"flag's spelling", "grpc_addr: ':1'\n", nil, nil, []string{"did you mean grpc.addr?"}},
		{"section as value", "kafka: ':9092'\n", nil, nil, []string{"kafka: is a section with the keys addr, advertise"}},
		{"value as section", "id: {x: 1}\n", nil, nil, []string{"id: one value is wanted"}},
		{"duration without unit", "session: {timeout: 3}\n", nil, nil, []string{"session.timeout: \"3\" is not a duration", "such as 250ms", "file "}},
		{"number", "", []string{"--topic-partitions", "many"}, nil, []string{"topic.partitions: \"many\" is not a whole number", "flag --topic-partitions"}},
		{"bool", "", nil, []string{"MOLDAU_TOPIC_AUTO_CREATE=perhaps"}, []string{"topic.auto-create: \"perhaps\" is not true or false", "MOLDAU_TOPIC_AUTO_CREATE"}},
		{"out of range", "", []string{"--topic-replication-factor", "70000"}, nil, []string{"topic.replication-factor: 70000 is too large"}},
		{"size", "storage: {reserve-bytes: 5 apples}\n", nil, nil, []string{"storage.reserve-bytes: \"5 apples\" is not a size"}},
		{"several at once", "idd: 1\nlog: {levle: x}\n", nil, nil, []string{"idd: unknown key, did you mean id?", "did you mean log.level?"}},
		{"validation", "", []string{"--seeds", "a:1"}, nil, []string{"bootstrap-expect: needed with seeds", "peer.advertise: needed"}},
		{"bad YAML", "id: [\n", nil, nil, []string{"is not valid YAML"}},
	} {
		from := Sources{Flags: flagsWith(t, c.args...), Environ: c.env}
		if c.file != "" {
			from.File = fileWith(t, c.file)
		}
		_, _, err := Load(from)
		if err == nil {
			t.Errorf("%s: accepted", c.name)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not say %q", c.name, err, want)
			}
		}
	}
}

// TestAdvertisedAddressesCanBeDialled: an address that nobody can dial is refused at the start, not handed to clients.
func TestAdvertisedAddressesCanBeDialled(t *testing.T) {
	for address, want := range map[string]string{
		"0.0.0.0:9092": "an address to listen on", "[::]:9092": "an address to listen on", "host:0": "no host and port", ":9092": "no host and port",
		"a b:1": "no host name", "host": "not host:port", "host:1": "", "10.0.0.1:1": "", "[fe80::1%eth0]:1": "", "broker_0.svc-1.example:9092": "",
	} {
		c := Default()
		c.Kafka.Advertise = address
		err := c.Validate()
		switch {
		case want == "" && err != nil:
			t.Errorf("%q is refused: %v", address, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %q", address, err, want)
		}
	}
}

func TestMissingFile(t *testing.T) {
	_, _, err := Load(Sources{File: filepath.Join(t.TempDir(), "none.yaml")})
	if err == nil || !strings.Contains(err.Error(), "check the path given with --config") {
		t.Errorf("got %v", err)
	}
}

func TestMisspeltEnvironmentIsToldNotRefused(t *testing.T) {
	_, warnings, err := Load(Sources{Environ: []string{"MOLDAU_LOG_LEVL=debug", "MOLDAU_SERVICE_HOST=10.0.0.1", "MOLDAU_SERVER=h:1", "MOLDAU_CONFIG=", "OTHER=x"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "did you mean MOLDAU_LOG_LEVEL?") {
		t.Errorf("warnings %q", warnings)
	}
}

func TestSizesAndDurations(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "17": 17, "64KiB": 64 << 10, "1 MiB": 1 << 20, "2GiB": 2 << 30, "5kB": 5000, "3MB": 3000000} {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("ParseBytes(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "MiB", "1.5GiB", "9999999TiB", "12x", "1MiBiB"} {
		if got, err := ParseBytes(text); err == nil {
			t.Errorf("ParseBytes(%q) = %d, want a refusal", text, got)
		}
	}
	for text, want := range map[string]time.Duration{"7d": 168 * time.Hour, "1h30m": 90 * time.Minute, "250ms": 250 * time.Millisecond} {
		got, err := ParseDuration(text)
		if err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v, want %v", text, got, err, want)
		}
		if back := formatDuration(got); back != text {
			t.Errorf("%v is written %q, want %q", got, back, text)
		}
	}
}

func TestNearest(t *testing.T) {
	keys := []string{"id", "data", "seeds", "grpc.addr", "bootstrap-expect"}
	for word, want := range map[string]string{"sedes": "seeds", "--grpc-adr": "grpc.addr", "bootstrap.expects": "bootstrap-expect", "elephant": "", "foo": "", "dta": "data"} {
		if got := Nearest(word, keys); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

// TestReferenceNamesEveryKey: the page is generated; what matters is that nothing is left out.
func TestReferenceNamesEveryKey(t *testing.T) {
	var page strings.Builder
	if err := Reference(&page); err != nil {
		t.Fatal(err)
	}
	for _, k := range Keys() {
		for _, want := range []string{"`" + k.Path + "`", "`--" + k.Flag + "`", "`" + k.Env + "`"} {
			if !strings.Contains(page.String(), want) {
				t.Errorf("the page does not have %s", want)
			}
		}
	}
}
