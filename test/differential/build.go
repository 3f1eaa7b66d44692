package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var variable = regexp.MustCompile(`\$\{(\w+)\}`)

// substitute puts values in the place of ${NAME}, and again in those.
func substitute(text string, vars map[string]string) (string, error) {
	var unknown string
	for depth := 0; strings.Contains(text, "${") && unknown == ""; depth++ {
		if depth > 10 {
			return "", fmt.Errorf("variables that name each other: %s", text)
		}
		text = variable.ReplaceAllStringFunc(text, func(m string) string {
			value, ok := vars[m[2:len(m)-1]]
			if !ok {
				unknown = m
			}
			return value
		})
	}
	if unknown != "" {
		return "", fmt.Errorf("no variable %s", unknown)
	}
	return text, nil
}

// build makes a request from JSON. Each struct in it starts from its defaults; a name that is not a field is an error.
func build(key, version int16, body string) (kmsg.Request, error) {
	req := kmsg.RequestForKey(key)
	if req == nil {
		return nil, fmt.Errorf("no API %d", key)
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(body)))
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil {
		return nil, fmt.Errorf("%s: %w", body, err)
	}
	if dec.More() {
		return nil, fmt.Errorf("text behind the JSON: %s", body)
	}
	if err := fill(reflect.ValueOf(req).Elem(), tree); err != nil {
		return nil, err
	}
	req.SetVersion(version)
	return req, nil
}

// fill sets a value from decoded JSON.
func fill(v reflect.Value, tree any) error {
	switch v.Kind() {
	case reflect.Struct:
		return fillStruct(v, tree)
	case reflect.Pointer:
		if tree == nil {
			v.SetZero()
			return nil
		}
		v.Set(reflect.New(v.Type().Elem()))
		return fill(v.Elem(), tree)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return fillBytes(v, tree)
		}
		if tree == nil {
			v.SetZero()
			return nil
		}
		elements, ok := tree.([]any)
		if !ok {
			return fmt.Errorf("want a list, have %v", tree)
		}
		v.Set(reflect.MakeSlice(v.Type(), len(elements), len(elements)))
		for i := range elements {
			if err := fill(v.Index(i), elements[i]); err != nil {
				return err
			}
		}
		return nil
	case reflect.Array: // an id
		text, _ := tree.(string)
		raw, err := hex.DecodeString(text)
		if err != nil || len(raw) != v.Len() {
			return fmt.Errorf("want %d bytes in hex, have %v", v.Len(), tree)
		}
		reflect.Copy(v, reflect.ValueOf(raw))
		return nil
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64: // also kmsg's enumerations, which would rather be texts
		n, ok := tree.(json.Number)
		i, err := n.Int64()
		if !ok || err != nil || v.OverflowInt(i) {
			return fmt.Errorf("want a number of %d bits, have %v", v.Type().Bits(), tree)
		}
		v.SetInt(i)
		return nil
	}
	raw, err := json.Marshal(tree)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, v.Addr().Interface())
}

func fillStruct(v reflect.Value, tree any) error {
	if d, ok := v.Addr().Interface().(interface{ Default() }); ok {
		d.Default()
	}
	fields, ok := tree.(map[string]any)
	if !ok {
		return fmt.Errorf("want an object for %s, have %v", v.Type(), tree)
	}
	for name, value := range fields {
		f := v.FieldByName(name)
		if !f.IsValid() {
			return fmt.Errorf("%s has no field %s", v.Type(), name)
		}
		if err := fill(f, value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// made is a value of bytes that is built, by the word before the bracket.
var made = regexp.MustCompile(`^(batch|old|subscription)\(([^)]*)\)`)

// fillBytes takes text as it is, or what its words build, one behind the other with +.
func fillBytes(v reflect.Value, tree any) error {
	if tree == nil {
		v.SetZero()
		return nil
	}
	text, ok := tree.(string)
	if !ok {
		return fmt.Errorf("want text for bytes, have %v", tree)
	}
	out := []byte{}
	for made.MatchString(text) {
		m := made.FindStringSubmatch(text)
		var raw []byte
		var err error
		switch m[1] {
		case "batch":
			raw, err = batch(m[2])
		case "old":
			raw, err = oldMessage(m[2])
		case "subscription":
			raw = subscription(strings.Split(m[2], ","))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		out = append(out, raw...)
		text = strings.TrimLeft(text[len(m[0]):], " +")
	}
	v.SetBytes(append(out, text...))
	return nil
}

// subscription is what a consumer says of itself when it joins a group.
func subscription(topics []string) []byte {
	m := kmsg.NewConsumerMemberMetadata()
	m.Topics = topics
	return m.AppendTo(nil)
}
