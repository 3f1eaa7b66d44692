package config

import (
	"slices"
	"strings"
	"testing"
)

func TestNamedListeners(t *testing.T) {
	c := Default()
	c.Listeners = []string{"INTERNAL://:9192", "external://[::]:9292"}
	c.AdvertisedListeners = []string{"External://broker.example:443"}
	got, err := c.NamedListeners()
	want := []NamedListener{{"internal", Door{Addr: ":9192"}}, {"external", Door{Addr: "[::]:9292", Advertise: "broker.example:443"}}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("read %+v, %v", got, err)
	}
	for _, bad := range []struct {
		listeners, advertised, want string
	}{
		{":9192", "", "not name://host:port"}, {"a b://:1", "", "not name://host:port"}, {"a://nowhere", "", "missing port"},
		{"a://:1,A://:2", "", "twice"}, {"a://:1", "b://h:1", "not in listeners"}, {"a://:1", "a://:1", "names no host"}, {"a://:1", "a://h:1,a://h:2", "twice"},
		{"a://:1", "a://0.0.0.0:1", "an address to listen on"},
		{"a://:1,b://:1,c://:1,d://:1,e://:1,f://:1,g://:1,h://:1,i://:1", "", "more than 8"},
	} {
		c := Default()
		c.Listeners = strings.Split(bad.listeners, ",")
		if bad.advertised != "" {
			c.AdvertisedListeners = strings.Split(bad.advertised, ",")
		}
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
