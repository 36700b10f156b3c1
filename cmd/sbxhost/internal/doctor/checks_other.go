//go:build !linux

package doctor

func examinePlatform() []finding { return nil }
