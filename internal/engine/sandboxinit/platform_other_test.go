//go:build unix && !linux

package sandboxinit

func probe(string) string { return "no Linux" }
