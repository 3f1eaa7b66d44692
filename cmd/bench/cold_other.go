//go:build !linux

package main

import "errors"

func dropPages([]string) (*coldResult, error) {
	return nil, errors.New("--cold needs Linux")
}
