//go:build !unix

package audit

import "errors"

// Nothing runs here that could be logged.
func (l *Log) append(Record) error { return errors.ErrUnsupported }
