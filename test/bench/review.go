package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/sbxhost/sbxhost/host"
)

// reviewed are commands, by the workspaces that they run in, and what each may take in a review,
// of the same on the workspace itself.
var reviewed = [...]struct {
	program, script string
	fill            func(ctx context.Context, root string, files int) error
	bound           float64
}{
	{"npm", "npm install --offline --no-audit --no-fund --no-update-notifier --loglevel=error", fillNPM, 1.1},
	{"go", "go build -o built .", fillGo, 1.1},
	{"git", "git status --porcelain", fillGit, 1.3},
}

const (
	directly      = "directly"
	firstOfReview = "first of a review"
	inReview      = "in a review"
	inOverlay     = "in a new overlay"
	benchReview   = "bench"
)

// measureReview tells what reviews cost: commands in one beside the same commands on the
// workspace itself, in the same definition, and what `sbxhost review` takes afterwards.
func measureReview(ctx context.Context, s *scene, o options, r *report) error {
	rounds := min(o.rounds, 20)
	for _, c := range reviewed {
		if _, err := exec.LookPath(c.program); err != nil {
			r.line("\n%s is not installed", c.program)
			continue
		}
		root := filepath.Join(s.dir, "reviewed", c.program)
		if err := errors.Join(os.MkdirAll(root, 0o755), c.fill(ctx, root, o.files)); err != nil {
			return fmt.Errorf("%s: %w", c.program, err)
		}
		if err := s.compareReview(ctx, root, c.script, rounds, r); err != nil {
			return fmt.Errorf("%s: %w", c.program, err)
		}
		r.atMost(c.program+", first of a review, of direct", r.of(firstOfReview, directly), c.bound, "x")
		r.atMost(c.program+", in a review, of direct", r.of(inReview, directly), c.bound, "x")
	}
	r.atMost("git, first of a review, of a new overlay", r.of(firstOfReview, inOverlay), 1.1, "x")
	return s.carryOver(ctx, rounds, r)
}

// compareReview lets a command run on a workspace and in reviews of that. What it makes is
// removed before each turn.
func (s *scene) compareReview(ctx context.Context, root, script string, rounds int, r *report) (err error) {
	cache, err := exec.CommandContext(ctx, "go", "env", "GOCACHE").Output()
	if err != nil {
		return err
	}
	at := strings.TrimSpace(string(cache))
	time.Sleep(settling)
	o := libraryOptions(s.dir)
	o.Dir, o.Workspace.Root = root, root
	o.Sandboxes = map[string]host.Definition{sandboxFast: {Engine: "native", BindPaths: []host.Bind{{Host: at, Writable: true}},
		Env: map[string]string{"CGO_ENABLED": "0", "GOPROXY": "off", "GOTOOLCHAIN": "local", "GOCACHE": at}}}
	h, err := host.New(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	run := func(review, script string) func() error {
		return func() error {
			var stderr bytes.Buffer
			cmd := h.Command(ctx, sandboxFast, "sh", "-c", script)
			cmd.Review, cmd.Stderr = review, &stderr
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("%w: %.1000s", err, stderr.Bytes())
			}
			return nil
		}
	}
	// A review that is still used has its names listed after a while: not beside another's turn.
	discard := func() error {
		review, err := h.OpenReview(ctx, benchReview)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		defer review.Close()
		return review.Discard(ctx)
	}
	const later, clean = "later", "rm -rf node_modules package-lock.json built"
	after := func(prepare func() error) func() error {
		return func() error { return errors.Join(discard(), prepare()) }
	}
	turns := []contender{
		{name: directly, prepare: after(run("", clean)), run: run("", script)},
		{name: firstOfReview, prepare: after(run("", clean)), run: run(benchReview, script)},
		{name: inReview, prepare: after(run(later, clean)), run: run(later, script)},
	}
	if strings.HasPrefix(script, "git ") {
		overlay := root + "-overlay"
		turns = append(turns, contender{name: inOverlay, prepare: after(func() error { return os.RemoveAll(overlay) }), run: func() error {
			return s.run(exec.CommandContext(ctx, "unshare", "-Urm", "sh", "-ec", plainOverlay, "sh", root, overlay, script))
		}})
	}
	return r.compare(ctx, script, turns, rounds)
}

// plainOverlay runs a command in an overlay that nothing was looked up in yet: what the kernel alone takes for
// that.
const plainOverlay = `mkdir -p "$2/upper" "$2/work" "$2/root"
mount -t overlay -o "userxattr,lowerdir=$1,upperdir=$2/upper,workdir=$2/work" overlay "$2/root"
cd "$2/root"
exec sh -c "$3"`

// carryOver has `sbxhost review` list and apply changes of each kind.
func (s *scene) carryOver(ctx context.Context, rounds int, r *report) error {
	root := filepath.Join(s.dir, "reviewed", "changes")
	err := os.MkdirAll(root, 0o755)
	for dir := range 100 {
		err = errors.Join(err, os.Mkdir(filepath.Join(root, fmt.Sprint(dir)), 0o755))
		for file := range 20 {
			err = errors.Join(err, os.WriteFile(filepath.Join(root, fmt.Sprint(dir), fmt.Sprint(file)), bytes.Repeat([]byte("text\n"), 200), 0o644))
		}
	}
	if err != nil {
		return err
	}
	sbxhost := func(args ...string) error {
		cmd := exec.CommandContext(ctx, s.lean, args...)
		cmd.Dir, cmd.Env = root, environ(s.dir)
		return s.run(cmd)
	}
	// In each directory 10 are changed, 5 made and 5 removed.
	const change = "for d in *; do cd $d; for f in ?; do echo more >>$f; done; for f in [0-4]; do echo new >new$f; done; rm 1[0-4]; cd ..; done"
	if err := sbxhost("exec", "-quiet", "-config", s.config, "-sandbox", "native", "-review", benchReview, "--", "sh", "-ec", change); err != nil {
		return err
	}
	applied := false
	undo := func() error {
		if !applied {
			return nil
		}
		applied = false
		return sbxhost("review", "undo", "-config", s.config)
	}
	const list, apply = "list 2,000 changes", "apply 2,000 changes"
	if err := r.compare(ctx, "Reviews", []contender{
		{name: list, prepare: undo, run: func() error { return sbxhost("review", "show", "-config", s.config, benchReview) }},
		{name: apply, prepare: undo, run: func() error {
			applied = true
			return sbxhost("review", "apply", "-config", s.config, "-yes", benchReview)
		}},
	}, rounds); err != nil {
		return err
	}
	r.atMost(list, r.p50(list), 500, "ms")
	r.atMost(apply, r.p50(apply), 500, "ms")
	return nil
}

// fillNPM makes a project that requires packages which lie beside it.
func fillNPM(_ context.Context, root string, _ int) error {
	var requires []string
	for i := range 10 {
		var packed bytes.Buffer
		compressed := gzip.NewWriter(&packed)
		archive := tar.NewWriter(compressed)
		add := func(name, text string) error {
			err := archive.WriteHeader(&tar.Header{Name: "package/" + name, Mode: 0o644, Size: int64(len(text))})
			_, writeErr := archive.Write([]byte(text))
			return errors.Join(err, writeErr)
		}
		err := add("package.json", fmt.Sprintf(`{"name": "p%d", "version": "1.0.0"}`, i))
		for j := range 100 {
			err = errors.Join(err, add(fmt.Sprintf("lib/d%d/f%d.js", j%10, j), strings.Repeat(fmt.Sprintf("exports.x%d = %d;\n", j, j), 100)))
		}
		file := fmt.Sprintf("p%d.tgz", i)
		if err = errors.Join(err, archive.Close(), compressed.Close(), os.WriteFile(filepath.Join(root, file), packed.Bytes(), 0o644)); err != nil {
			return err
		}
		requires = append(requires, fmt.Sprintf("\"p%d\": \"file:%s\"", i, file))
	}
	return os.WriteFile(filepath.Join(root, "package.json"), fmt.Appendf(nil, `{"name": "app", "version": "1.0.0", "dependencies": {%s}}`, strings.Join(requires, ", ")), 0o644)
}

func fillGo(_ context.Context, root string, _ int) error {
	return errors.Join(os.WriteFile(filepath.Join(root, "go.mod"), []byte("module example.com/m\n\ngo 1.26\n"), 0o644),
		os.WriteFile(filepath.Join(root, "main.go"), []byte("package main\n\nimport \"net/http\"\n\nfunc main() { http.ListenAndServe(\"\", nil) }\n"), 0o644))
}

// fillGit makes a repository of that many files.
func fillGit(ctx context.Context, root string, files int) error {
	for i := range files {
		dir := filepath.Join(root, fmt.Sprint(i/1000), fmt.Sprint(i/100))
		if i%100 == 0 {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), fmt.Append(nil, i), 0o644); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "all"}} {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %.1000s", args[0], err, out)
		}
	}
	return nil
}
