package enginetest

import "context"

// A rule is one demand of package shared.
type rule struct {
	id, title string
	run       func(ctx context.Context, b *bench) error
}

// A bench is what a rule is tried with.
type bench struct {
	suite *Suite
	scene *scene
}

func contractRules() []rule { return nil }

func (s *Suite) runRule(ctx context.Context, r *rule) (Status, string) { return Held, "" }
