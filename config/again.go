package config

import "bytes"

// uses is what the expressions of a file have used of an EvalInput.
type uses struct {
	env   map[string]variable
	other bool // functions whose results are not compared
}

type variable struct {
	value string
	set   bool
}

// recorded returns an input that records what is used of it.
func (u *uses) recorded(in EvalInput) EvalInput {
	lookupEnv, root := in.LookupEnv, in.Root
	if lookupEnv != nil {
		in.LookupEnv = func(name string) (string, bool) {
			value, set := lookupEnv(name)
			u.env[name] = variable{value, set}
			return value, set
		}
	}
	if root != nil {
		in.Root = func() (string, error) { u.other = true; return root() }
	}
	return in
}

// Again returns f for another input if that and src mean the same for the file as what f was parsed
// from; else nil.
func (f *File) Again(src []byte, input EvalInput) *File {
	was := &f.eval.input
	same := len(f.diags) == 0 && f.body != nil && !f.uses.other && bytes.Equal(src, f.source.Bytes) &&
		input.LookupEnv != nil && input.Home == was.Home && input.OS == was.OS && input.Arch == was.Arch
	if !same {
		return nil
	}
	for name, used := range f.uses.env {
		if value, set := input.LookupEnv(name); used != (variable{value, set}) {
			return nil
		}
	}
	again := *f
	again.eval = &evaluator{input: input, root: f.eval.root}
	return &again
}
