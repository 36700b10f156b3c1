package review

// ofGit settles what git's own files become.
func (r *Review) ofGit(layer int, changes []Change, configurations []string) ([]Change, error) {
	source := string(r.rec.Layers[layer].Source)
	return keepObjects(source, changes), nil
}
