//go:build !unix

package audit

import "errors"

// No command runs on this system, so there is nothing to log.
func (l *Log) append(Record) error { return errors.ErrUnsupported }
