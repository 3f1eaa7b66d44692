// Package found holds docs/bugs.md to its word: each planted bug is found by what the page says, within the seeds it says.
//
// The page's first table has a row for every bug of package planted. Its last column lists who finds it: a random search, with what is broken and the seed
// that shows it, or a directed test. A package that finds bugs has one test under the tag "planted" that calls Check. Nothing but tests uses this package.
//
// The meaning of a seed changes with whatever draws from it. A search therefore fails only when the listed seed and all seeds up to RecheckSeeds find nothing;
// `make bugs` looks for every bug anew and writes the page.
package found
