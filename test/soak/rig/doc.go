// Package rig runs broker processes on machines of their own, as far as one machine can give them: each broker has a network namespace with an address on a
// common bridge, and a file system in an image file. So a link can be cut between two of them and in one direction only, a disk can be filled, and power can be
// cut: kill -9, then the file system is shut down without writing anything that had not been synced, then it is mounted again.
//
// All of it lives in namespaces (network, mount, process) of one process, which Isolate starts and Enter prepares: when that process ends, however it ends, the kernel
// takes down the brokers, the mounts, the loop devices and the network. What is left is one directory. Linux only; it needs root.
//
// The package knows nothing of topics, clients or schedules. Its caller is package test/soak. A Broker's methods may be called from any goroutine, one at a
// time per broker; one goroutine per process waits for its end.
package rig
