// Command differential sends the same scripted requests to Apache Kafka and to Moldau and compares the answers field by field.
//
// A script (testdata/one/*.txt for clusters of one broker, testdata/three/*.txt for those of three, which create no topics by themselves) is a list of statements, one a line; a line that begins with white space continues the one above:
//
//	STEP KEY VERSIONS [DIRECTIVE...] {JSON}   one request. VERSIONS: * all that both offer, 3+, 3-7, 7, ~7 the nearest offered. JSON has kmsg's names;
//	                                          what is left out has its default. ${v} is the version
//	let NAME TEXT                             ${NAME} stands for TEXT from here on
//	for NAME of KEY ... end                   once for each version of an API that both offer
//	for NAME in WORD... ... end               once for each word; of a word a=b, ${name} is a and ${value} is b
//	ready TOPIC PARTITIONS                    wait until every partition has a leader that answers
//	wait STEP                                 take the answer to a step that was sent with async
//
// Directives: save=NAME:PATH keeps a value of the answer as ${NAME}, on each side its own; until=PATH=VALUE (or !=) asks again until it is so, and compares the last answer;
// async sends, and does not wait; silent: there is no answer; closed: both close the connection; as=N: the answer is in version N's form; on=moldau or on=kafka: one side only,
// for preparation, nothing is compared; broker=N: to broker N, broker=!N to another; tail=HEX: the request's last bytes are these, for what kmsg does not write.
//
// Values of bytes may be made: batch(...) is a record batch and old(...) a message of format 0 or 1 (batch.go), subscription(a,b) what a consumer subscribes to.
//
// Every field of the two answers must be equal, except what two clusters cannot share, by the table in normal.go, and what docs/kafka-differences.md has a row for. The run
// fails on any other difference, and on a row that no longer occurs.
//
// It starts nothing: test/differential.sh does (make differential). One goroutine, and one more for each unanswered step; one connection for each request.
package main
