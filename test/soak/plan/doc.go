// Package plan draws what a soak run does to its brokers: a list of steps, each with one fault or two at a time, how long they hold and how long it is quiet
// before them. It is pure: the same seed, length, number of brokers and families give the same steps. Package test/soak executes them.
package plan
