// Command compat runs real Kafka clients against three brokers of its own and prints what each of them can do: `make compat`.
//
// It knows no client. A client is a folder under clients/ with two scripts: setup.sh installs it into $COMPAT_CACHE/NAME, run.sh lists its
// capabilities and does one of them; docs/compatibility.md has the contract. The driver starts the brokers, runs the scripts one after the other,
// kills and restarts a broker when a client asks for it, and writes the table. It is its own module, so that nothing of a client reaches go.mod of
// the product, and it uses of the product only the binary.
//
// Goroutines: one that reads the output of the client that runs; everything else happens in main. Every process is ended by its id, or by its process
// group where it is a script.
package main
