package config

import (
	"reflect"
	"strings"
)

// Kind is how the value of a key is written.
type Kind string

// The kinds of values.
const (
	KindString   Kind = "string"
	KindStrings  Kind = "list"     // comma-separated, or a YAML list
	KindBool     Kind = "bool"     // true or false
	KindInt      Kind = "int"      // decimal
	KindBytes    Kind = "bytes"    // decimal, or with a unit: 64KiB, 1MiB, 2GiB, 500kB, 1MB
	KindDuration Kind = "duration" // with a unit: 250ms, 10s, 5m, 1h30m, 7d
)

// Key is one leaf of Config and every way to set it.
type Key struct {
	Path string // dotted, as in the file: session.timeout
	Flag string // without dashes: session-timeout
	Env  string // MOLDAU_SESSION_TIMEOUT
	Kind Kind
	Doc  string

	index []int // of the field in Config, for reflect
}

// Keys lists every key in the order of Config.
func Keys() []Key {
	var keys []Key
	walk(reflect.TypeFor[Config](), "", nil, func(k Key) { keys = append(keys, k) })
	return keys
}

// Sections gives the meaning of each section, by its name.
func Sections() map[string]string {
	docs := map[string]string{}
	for f := range fields(reflect.TypeFor[Config]()) {
		if f.Type.Kind() == reflect.Struct {
			docs[f.Tag.Get("key")] = f.Tag.Get("doc")
		}
	}
	return docs
}

func fields(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}

func walk(t reflect.Type, prefix string, index []int, yield func(Key)) {
	for f := range fields(t) {
		path, at := prefix+f.Tag.Get("key"), append(index[:len(index):len(index)], f.Index...)
		if f.Type.Kind() == reflect.Struct {
			walk(f.Type, path+".", at, yield)
			continue
		}
		yield(Key{Path: path, Flag: flagName(path), Env: envName(path), Kind: kindOf(f), Doc: f.Tag.Get("doc"), index: at})
	}
}

// flagName is the path in kebab case; what is advertised reads better the other way round: --advertise-grpc.
func flagName(path string) string {
	if door, ok := strings.CutSuffix(path, ".advertise"); ok {
		return "advertise-" + door
	}
	return strings.ReplaceAll(path, ".", "-")
}

// EnvPrefix begins the name of every environment variable that is read.
const EnvPrefix = "MOLDAU_"

func envName(path string) string {
	return EnvPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(path))
}

func kindOf(f reflect.StructField) Kind {
	switch {
	case f.Type == durationType:
		return KindDuration
	case f.Type.Kind() == reflect.Bool:
		return KindBool
	case f.Type.Kind() == reflect.Slice:
		return KindStrings
	case f.Type.Kind() == reflect.String:
		return KindString
	case strings.HasSuffix(f.Tag.Get("key"), "-bytes"):
		return KindBytes
	}
	return KindInt
}
