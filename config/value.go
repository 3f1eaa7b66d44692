package config

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

var durationType = reflect.TypeFor[time.Duration]()

// ParseBytes reads a size: a decimal number of bytes, or one with a unit. KiB, MiB, GiB and TiB are powers of 1024, kB, MB, GB and TB of 1000.
func ParseBytes(s string) (int64, error) {
	number := strings.TrimRight(s, "kKMGTiBb")
	unit := strings.TrimSpace(s[len(number):])
	factor, ok := map[string]int64{
		"": 1, "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	}[unit]
	n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
	if !ok || err != nil {
		return 0, fmt.Errorf("%q is not a size; write bytes, or a number with a unit such as 64MiB", s)
	}
	if n > math.MaxInt64/factor || n < math.MinInt64/factor {
		return 0, fmt.Errorf("size %q is out of range", s)
	}
	return n * factor, nil
}

// ParseDuration reads a duration with units as Go writes them, and days: 250ms, 1h30m, 7d.
func ParseDuration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseInt(days, 10, 64)
		if err == nil && n >= 0 && n <= math.MaxInt64/int64(24*time.Hour) {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration; write a number with a unit such as 250ms, 10s, 5m or 7d", s)
	}
	return d, nil
}

// set parses what flag, environment or file gave and stores it in field.
func set(field reflect.Value, kind Kind, raw any) error {
	if kind == KindStrings {
		list, err := parseList(raw)
		if err == nil {
			field.Set(reflect.ValueOf(list))
		}
		return err
	}
	switch raw.(type) {
	case map[string]any, []any:
		return fmt.Errorf("one value is wanted, not a list or a section")
	}
	text := strings.TrimSpace(fmt.Sprint(raw))
	switch kind {
	case KindString:
		field.SetString(text)
	case KindBool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is not true or false", text)
		}
		field.SetBool(b)
	case KindDuration:
		d, err := ParseDuration(text)
		if err != nil {
			return err
		}
		field.SetInt(int64(d))
	case KindBytes:
		n, err := ParseBytes(text)
		if err != nil {
			return err
		}
		return setInt(field, n, text)
	default:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		return setInt(field, n, text)
	}
	return nil
}

func setInt(field reflect.Value, n int64, text string) error {
	if field.OverflowInt(n) {
		return fmt.Errorf("%s is too large", text)
	}
	field.SetInt(n)
	return nil
}

// parseList takes a YAML list, or text with commas.
func parseList(raw any) ([]string, error) {
	var items []string
	switch v := raw.(type) {
	case []string:
		items = v
	case []any:
		for _, item := range v {
			if _, nested := item.(map[string]any); nested {
				return nil, fmt.Errorf("a list of plain values is wanted")
			}
			items = append(items, fmt.Sprint(item))
		}
	case map[string]any:
		return nil, fmt.Errorf("a list is wanted, not a section")
	default:
		items = strings.Split(fmt.Sprint(v), ",")
	}
	var list []string
	for _, item := range items {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list, nil
}

// format writes a value as a person would.
func format(field reflect.Value, kind Kind) string {
	switch kind {
	case KindStrings:
		return strings.Join(field.Interface().([]string), ",")
	case KindDuration:
		return formatDuration(time.Duration(field.Int()))
	case KindBytes:
		return formatBytes(field.Int())
	}
	return fmt.Sprint(field.Interface())
}

func formatDuration(d time.Duration) string {
	if days := d / (24 * time.Hour); days > 0 && d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%dd", days)
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func formatBytes(n int64) string {
	for _, unit := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= unit.size && n%unit.size == 0 {
			return fmt.Sprintf("%d%s", n/unit.size, unit.name)
		}
	}
	return strconv.FormatInt(n, 10)
}
