// Package config is the typed configuration of a broker: what can be set, its defaults, what is allowed, where it is read from (flag over environment over
// file over default) and the reference page that is generated from it. Components receive the part that concerns them and never see where it came from.
// Package server, the commands and tests import it; nobody else.
package config
