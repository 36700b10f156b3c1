// Package confined confines a test's process in ways that nobody sees from outside.
package confined
