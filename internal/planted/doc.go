// Package planted holds known mistakes that can be switched on in the product's own rules, one at a time, to prove that its checks would find them.
//
// Each Bug is a mistake that some system has shipped, or that is easy to make. The line that makes it stands at the rule it breaks:
//
//	if planted.On(planted.TruncateToWatermark) && ... {
//
// Only a binary built with the tag "planted" can make one: Set, or the environment variable MOLDAU_PLANTED, chooses it. Without the tag On is the constant
// false, the compiler drops the line, and nothing of this package is in the binary (TestNothingIsPlantedWithoutTheTag).
//
// docs/bugs.md says what finds each bug, and package planted/found holds that page to its word. Every package of the product may import this one.
// It runs no goroutines. The switch, which exists under the tag only, is the one piece of state of the whole process that the product allows itself: a value
// handed through every package would be seen in their signatures.
package planted
