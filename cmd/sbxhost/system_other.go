//go:build !unix

package main

func hook()          {}
func settleProcess() {}
