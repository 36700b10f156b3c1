package hostpath

func openers() map[string]func(string, int, uint32) (int, error) {
	return map[string]func(string, int, uint32) (int, error){"O_NOFOLLOW_ANY": OpenNoSymlinks}
}
