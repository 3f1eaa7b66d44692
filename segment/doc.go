// Package segment is one partition's log on disk.
package segment
