package config

import (
	"fmt"
	"strings"
)

// MaxListeners bounds the Kafka listeners that have a name.
const MaxListeners = 8

// NamedListener is a Kafka listener beside the first one.
type NamedListener struct {
	Name string // lower case
	Door
}

// NamedListeners reads Listeners and AdvertisedListeners.
func (c Config) NamedListeners() ([]NamedListener, error) {
	var out []NamedListener
	find := func(name string) *NamedListener {
		for i := range out {
			if out[i].Name == name {
				return &out[i]
			}
		}
		return nil
	}
	for _, text := range c.Listeners {
		name, addr, err := parseListener(text)
		switch {
		case err != nil:
			return nil, fmt.Errorf("listeners: %w", err)
		case find(name) != nil:
			return nil, fmt.Errorf("listeners: %q is there twice", name)
		case len(out) == MaxListeners:
			return nil, fmt.Errorf("listeners: more than %d", MaxListeners)
		}
		out = append(out, NamedListener{Name: name, Door: Door{Addr: addr}})
	}
	for _, text := range c.AdvertisedListeners {
		name, addr, err := parseListener(text)
		if err != nil {
			return nil, fmt.Errorf("advertised-listeners: %w", err)
		}
		l := find(name)
		switch {
		case l == nil:
			return nil, fmt.Errorf("advertised-listeners: %q is not in listeners", name)
		case l.Advertise != "":
			return nil, fmt.Errorf("advertised-listeners: %q is there twice", name)
		}
		if err := parseAdvertised(addr); err != nil {
			return nil, fmt.Errorf("advertised-listeners: %w", err)
		}
		l.Advertise = addr
	}
	return out, nil
}

// parseListener reads name://host:port. Names are compared without case, as Kafka does.
func parseListener(text string) (name, addr string, err error) {
	name, addr, ok := strings.Cut(text, "://")
	name = strings.ToLower(name)
	if !ok || name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
		return "", "", fmt.Errorf("%q is not name://host:port; example internal://0.0.0.0:9192", text)
	}
	if _, _, err := splitAddr(addr); err != nil {
		return "", "", fmt.Errorf("%q: %w", text, err)
	}
	return name, addr, nil
}
