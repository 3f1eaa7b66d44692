package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// Sources are the places that values come from, the stronger first: flags, environment, file, defaults.
type Sources struct {
	// Flags has the flags that AddFlags declared; those that were given count. It may be nil.
	Flags *pflag.FlagSet
	// Environ is the environment as "name=value"; os.Environ() in a program.
	Environ []string
	// File is the path of a YAML file; empty: none.
	File string
	// Defaults is where to begin; nil is Default().
	Defaults *Config
}

// AddFlags declares a flag for every key, with its default from base.
func AddFlags(flags *pflag.FlagSet, base Config) {
	value := reflect.ValueOf(base)
	for _, k := range Keys() {
		v := &flagValue{kind: k.Kind, text: format(value.FieldByIndex(k.index), k.Kind)}
		f := flags.VarPF(v, k.Flag, "", k.Doc)
		if k.Kind == KindBool {
			f.NoOptDefVal = "true"
		}
	}
}

// flagValue keeps a flag's text; Load parses it, so that every source is judged by the same words.
type flagValue struct {
	kind  Kind
	text  string
	given bool // text is not the default
}

func (v *flagValue) String() string { return v.text }
func (v *flagValue) Type() string   { return string(v.kind) }

// Set takes the flag's text. A list that is given again goes on; anything else is what was said last.
func (v *flagValue) Set(s string) error {
	if v.kind == KindStrings && v.given {
		s = v.text + "," + s
	}
	v.text, v.given = s, true
	return nil
}

// Load reads and validates the configuration. The error joins everything that is wrong; each line names the key, what is wrong and what to do.
// Warnings are for people: environment variables that look like a misspelt key.
func Load(from Sources) (cfg Config, warnings []string, err error) {
	cfg = Default()
	if from.Defaults != nil {
		cfg = *from.Defaults
	}
	v, err := layers(from)
	if err != nil {
		return cfg, nil, err
	}
	keys := Keys()
	errs := unknown(v, keys, from.File)
	target := reflect.ValueOf(&cfg).Elem()
	for _, k := range keys {
		if !v.IsSet(viperKey(k.Path)) {
			continue
		}
		if err := set(target.FieldByIndex(k.index), k.Kind, v.Get(viperKey(k.Path))); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w (set by %s)", k.Path, err, origin(from, k)))
		}
	}
	if len(errs) == 0 {
		errs = append(errs, cfg.Validate())
	}
	return cfg, Misspelt(from.Environ), errors.Join(errs...)
}

// delimiter parts nested keys inside viper; a dot would collide with keys that hold dots.
const delimiter = "::"

func viperKey(path string) string { return strings.ReplaceAll(path, ".", delimiter) }

// layers puts file, environment and flags into one viper. Defaults stay outside, so that IsSet means that somebody said something.
func layers(from Sources) (*viper.Viper, error) {
	v := viper.NewWithOptions(viper.KeyDelimiter(delimiter))
	if from.File != "" {
		f, err := os.Open(from.File)
		if err != nil {
			return nil, fmt.Errorf("config: read the file: %w; check the path given with --config", err)
		}
		defer f.Close()
		v.SetConfigType("yaml")
		if err := v.ReadConfig(f); err != nil {
			return nil, fmt.Errorf("config: %s is not valid YAML: %w", from.File, err)
		}
	}
	env := environment(from.Environ)
	overrides := map[string]any{}
	for _, k := range Keys() {
		if text, ok := env[k.Env]; ok && text != "" {
			overrides[k.Path] = text
		}
		if given(from.Flags, k) {
			overrides[k.Path] = from.Flags.Lookup(k.Flag).Value.String()
		}
	}
	for path, text := range overrides {
		v.Set(viperKey(path), text)
	}
	return v, nil
}

func given(flags *pflag.FlagSet, k Key) bool { return flags != nil && flags.Changed(k.Flag) }

func environment(environ []string) map[string]string {
	env := map[string]string{}
	for _, pair := range environ {
		if name, text, ok := strings.Cut(pair, "="); ok && strings.HasPrefix(name, EnvPrefix) {
			env[name] = text
		}
	}
	return env
}

// origin says where the value of a key comes from.
func origin(from Sources, k Key) string {
	switch {
	case given(from.Flags, k):
		return "flag --" + k.Flag
	case environment(from.Environ)[k.Env] != "":
		return "environment variable " + k.Env
	}
	return "file " + from.File
}

// unknown refuses what the file says and no key means.
func unknown(v *viper.Viper, keys []Key, file string) []error {
	known, sections := map[string]bool{}, map[string][]string{}
	var paths []string
	for _, k := range keys {
		known[k.Path] = true
		paths = append(paths, k.Path)
		if section, leaf, ok := strings.Cut(k.Path, "."); ok {
			sections[section] = append(sections[section], leaf)
		}
	}
	var errs []error
	seen := map[string]bool{}
	for _, raw := range v.AllKeys() {
		path := strings.ReplaceAll(raw, delimiter, ".")
		if parent, _, ok := strings.Cut(path, "."); ok && known[parent] {
			path = parent // a section where one value is wanted: Load says so
		}
		if known[path] || seen[path] {
			continue
		}
		seen[path] = true
		switch leaves := sections[path]; {
		case leaves != nil:
			errs = append(errs, fmt.Errorf("%s: is a section with the keys %s (in file %s)", path, strings.Join(leaves, ", "), file))
		default:
			errs = append(errs, fmt.Errorf("%s: unknown key%s (in file %s); `moldau docs config` lists all keys", path, suggestion(path, paths), file))
		}
	}
	return errs
}

func suggestion(word string, candidates []string) string {
	if near := Nearest(word, candidates); near != "" {
		return fmt.Sprintf(", did you mean %s?", near)
	}
	return ""
}

// The environment variables that are no key of the configuration: what brokers a command asks, and the file that a broker loads.
const (
	EnvServer = EnvPrefix + "SERVER"
	EnvConfig = EnvPrefix + "CONFIG"
)

// Misspelt finds environment variables that are close to one of ours and not one. They are not refused: a platform may set MOLDAU_ variables of
// its own, as Kubernetes does for a service of that name.
func Misspelt(environ []string) []string {
	names := []string{EnvServer, EnvConfig}
	for _, k := range Keys() {
		names = append(names, k.Env)
	}
	var warnings []string
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, EnvPrefix) || slices.Contains(names, name) {
			continue
		}
		if near := Nearest(strings.TrimPrefix(name, EnvPrefix), trimmed(names)); near != "" {
			warnings = append(warnings, fmt.Sprintf("environment variable %s is ignored, did you mean %s?", name, EnvPrefix+near))
		}
	}
	return warnings
}

func trimmed(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = strings.TrimPrefix(n, EnvPrefix)
	}
	return out
}
