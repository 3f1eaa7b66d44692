package fetcher

import "errors"

// errBroken stands for the reader's error while the reader ends.
var errBroken = errors.New("fetcher: stream broke")
