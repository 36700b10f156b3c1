package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sbxhost/sbxhost/host"
)

type reviewArguments struct {
	Action    string   `json:"action" jsonschema:"list, diff, apply or discard"`
	Name      string   `json:"name,omitempty" jsonschema:"name of the review; not for list"`
	Digest    string   `json:"digest,omitempty" jsonschema:"for apply, required: the digest that diff returned"`
	Paths     []string `json:"paths,omitempty" jsonschema:"for diff and apply: only these files and directories; default: all"`
	Directory string   `json:"directory,omitempty" jsonschema:"a directory in the workspace; default: the server's own directory"`
}

type reviewResult struct {
	Reviews []host.ReviewInfo `json:"reviews"` // of list
	Changes *changes          `json:"changes"` // of diff, and of apply those that were applied; else null
	Diff    excerpt           `json:"diff"`    // of diff
	Omitted []string          `json:"left"`    // changes that the diff does not show as they are: large files, what commands cannot read, empty directories, permissions, attributes
}

// changes are the differences in a review.
type changes struct {
	Review string   `json:"review"`
	Digest string   `json:"digest"` // of all changes; apply needs it
	Lines  []string `json:"lines"`  // one for each change in the paths: added, modified, deleted or mode, the path, and what is to be known of it; the last one counts those at paths that the sandbox hides
	More   int      `json:"more"`   // changes besides: apply needs paths with fewer
	Error  string   `json:"error"`  // why they are not known; else empty
}

// maxLines bounds the list of changes.
const maxLines = 200

// changesIn lists the changes in some paths of a set that an agent may see: no more than its
// commands see.
func changesIn(name string, set *host.ReviewSet, only []string) *changes {
	c := &changes{Review: name, Digest: set.Digest}
	seen, unseen := set.Visible()
	c.Lines, c.More = lines(seen.Changes, only)
	if unseen > 0 {
		c.Lines = append(c.Lines, fmt.Sprintf("and %d at paths that the sandbox hides: they are not shown, nor in the diff", unseen))
	}
	return c
}

func lines(changes []host.ReviewChange, only []string) (list []string, more int) {
	list = []string{}
	for i := range changes {
		one := &changes[i]
		switch {
		case !one.Concerns(only):
			continue
		case len(list) == maxLines:
			more++
			continue
		}
		list = append(list, one.Text())
	}
	return list, more
}

// changesOf looks into the review of a command that has ended. Another command may use it.
func (s *server) changesOf(ctx context.Context, h *host.Host, name string) *changes {
	r, err := h.OpenReview(ctx, name)
	if err == nil {
		defer r.Close()
		var set *host.ReviewSet
		if set, err = r.Changes(ctx); err == nil {
			return changesIn(name, set, nil)
		}
	}
	return &changes{Review: name, Lines: []string{}, Error: err.Error()}
}

func (s *server) review(ctx context.Context, _ *mcp.CallToolRequest, in reviewArguments) (*reviewResult, error) {
	out := &reviewResult{Reviews: []host.ReviewInfo{}, Omitted: []string{}}
	h, at, err := s.host(in.Directory, "")
	if err != nil {
		return nil, err
	}
	switch {
	case in.Action == "list":
		found, err := h.Reviews()
		out.Reviews = append(out.Reviews, found...)
		return out, err
	case !slices.Contains([]string{"diff", "apply", "discard"}, in.Action):
		return nil, fmt.Errorf("action: %q is neither list, diff, apply nor discard", in.Action)
	case in.Action == "apply" && !s.apply:
		return nil, errors.New("action: the user's configuration does not let agents apply reviews: ask the user to apply it, or for mcp { apply = true }")
	case in.Action == "apply" && in.Digest == "":
		return nil, errors.New("digest: apply needs the one that diff gave")
	case in.Name == "":
		return nil, errors.New("name: which review")
	case in.Action == "discard" && !s.began(h, at.root, in.Name):
		return nil, fmt.Errorf("name: no command of this connection has begun a review %q, and another one is its user's to discard", in.Name)
	}
	r, err := h.OpenReview(ctx, in.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("name: there is no review %q of this workspace", in.Name)
	} else if err != nil {
		return nil, err
	}
	defer r.Close()
	if in.Action == "discard" {
		return out, r.Discard(ctx)
	}
	set, err := r.Changes(ctx)
	if err != nil {
		return nil, err
	}
	seen, _ := set.Visible()
	if in.Action == "apply" {
		for _, p := range in.Paths {
			// An agent must not find out either whether a hidden path exists.
			if !slices.ContainsFunc(seen.Changes, func(c host.ReviewChange) bool { return c.IsIn([]string{p}) }) {
				return nil, fmt.Errorf("paths: the diff has nothing at %q", p)
			}
		}
		visible, more := lines(seen.Changes, in.Paths)
		if more > 0 {
			return nil, fmt.Errorf("paths: diff lists %d changes at most, and there are %d more: name paths with fewer, look at their diff, and apply them", maxLines, more)
		}
		if all, more := lines(set.Changes, in.Paths); len(all)+more > len(visible) {
			return nil, errors.New("paths: some changes are at paths that the sandbox hides, and are no agent's to apply: name others")
		}
		done, err := r.Apply(ctx, set, host.ReviewChoice{Digest: in.Digest, Paths: in.Paths})
		if done != nil {
			applied := *set
			applied.Changes = done.Applied
			out.Changes = changesIn(in.Name, &applied, nil)
		}
		return out, err
	}
	out.Changes = changesIn(in.Name, set, in.Paths)
	var left []host.ReviewChange
	out.Diff, left, err = diff(ctx, r, seen, in.Paths)
	var more int
	if out.Omitted, more = lines(left, nil); more > 0 {
		out.Omitted = append(out.Omitted, fmt.Sprintf("and %d more", more))
	}
	return out, err
}

// began reports whether a command of this connection has begun a review of a workspace: this one, since its user
// may have begun another of that name.
func (s *server) began(h *host.Host, root, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	made, ok := s.begun[[2]string{root, name}]
	return ok && made.Equal(madeOf(h, name))
}

// madeOf returns the time when a review began; the zero time if there is no review.
func madeOf(h *host.Host, name string) time.Time {
	list, _ := h.Reviews()
	for _, r := range list {
		if r.Name == name && !r.Complete {
			return r.Created
		}
	}
	return time.Time{}
}

// diff returns git's diff, without a pager or colours, and the changes that the diff omits.
func diff(ctx context.Context, r *host.Review, set *host.ReviewSet, only []string) (excerpt, []host.ReviewChange, error) {
	text := newCapture()
	left, err := r.Diff(ctx, text, set, only)
	if errors.Is(err, host.ErrNoProgram) {
		return excerpt{Cut: "there is no git that could be trusted to write the diff: " + err.Error()}, nil, nil
	} else if err != nil {
		return excerpt{}, nil, err
	}
	return text.ends(maxReply), left, nil
}
