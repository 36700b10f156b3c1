package review

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/sessiondir"
)

// Names in a review's directory. Engines use other names there.
const (
	lockFile     = "review.lock"
	recordFile   = "review.json"
	slotsDir     = "slots"
	journalFile  = "journal.json"
	appliedFile  = "applied.json"  // the journal of the last apply, for an undo
	completeFile = "complete.json" // the same, of one that left nothing: its review is only for an undo
	knownFile    = "known.json"
)

// Names in the directory of a workspace's reviews that are not reviews.
const (
	gonePrefix = ".gone-"
	keptPrefix = ".kept-" // of what an undone apply could not put back, and reported
	applyLock  = ".lock"
)

// A Store has the reviews of one workspace: beside it, on the same mount.
type Store struct {
	root string
	dir  string
	keys string // the user's directory of keys
}

// StoreOf returns the Store of a workspace, whose path has no symlink. state is a directory of the
// user that no command sees, or "". It does not read anything.
func StoreOf(root, state string) *Store {
	return &Store{root, filepath.Join(Base(root), storeName(root)), keysIn(state)}
}

func storeName(root string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(root)))[:16]
}

// make makes the directory of reviews, if reviews are possible here.
func (s *Store) make() error {
	var at unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, s.root, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS, &at); err != nil {
		return &fs.PathError{Op: "stat", Path: s.root, Err: err}
	}
	if at.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return fmt.Errorf("%w: %q is a mount of its own, and a review must store its files beside it, on the same one", ErrPlace, s.root)
	}
	if err := s.register(); err != nil {
		return fmt.Errorf("%w: a review needs a directory for its user's key: %w", ErrPlace, err)
	}
	if err := hostpath.MakePrivate(s.dir, 0o700); err != nil {
		return fmt.Errorf("%w: a review stores its files beside the workspace: %w", ErrPlace, err)
	}
	const ignore = ".gitignore" // for a repository around the workspace
	if has(Base(s.root), ignore) {
		return nil
	}
	return writeFile(Base(s.root), ignore, []byte("*\n"), false, os.Rename) // through no symlink
}

// record is a review's description of itself.
type record struct {
	Sandbox       string // the definition of its first command
	CredentialKey string // what its commands have besides files
	Created       time.Time
	Layers        []layerRecord
}

type layerRecord struct {
	Source name
	Upper  name  // in the review's directory
	Lock   name  // a file that the mounter locks, in the review's directory
	Begun  int64 // the latest change time of source files that commands found
	// Indexes are the Entries of git's indexes that commands found, by indexKey.
	Indexes map[string][]byte
}

// unused reports whether no engine has stored anything in a review, and nobody applied it.
func (r *Review) unused() bool {
	r.adding.Lock()
	defer r.adding.Unlock()
	kept := []string{appliedIn(r.dir), journalFile, slotsDir}
	for _, l := range r.rec.Layers {
		kept = append(kept, string(l.Upper))
	}
	return !slices.ContainsFunc(kept, func(name string) bool { return has(r.dir, name) })
}

// has reports whether a directory has, or may have, something of this name.
func has(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return !errors.Is(err, fs.ErrNotExist)
}

// appliedIn is the name of the journal of a review's last apply, if there is one.
func appliedIn(dir string) string {
	if has(dir, completeFile) {
		return completeFile
	}
	return appliedFile
}

// Join opens a review for the commands of one Host: until its Close, nobody else uses it. Join makes
// a missing one. The error is a sessiondir.InUseError while somebody else uses the review.
func (s *Store) Join(ctx context.Context, name, sandbox, credentialKey string) (*Review, error) {
	if err := sessiondir.CheckName(name); err != nil {
		return nil, err
	}
	if err := s.make(); err != nil {
		return nil, err
	}
	r := &Review{Name: name, store: s, dir: filepath.Join(s.dir, name)}
	for {
		if err := os.Mkdir(r.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		var err error
		if r.lock, err = lockIn(hostpath.NoWait(), r.dir); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		err = r.prepare(ctx, sandbox, credentialKey)
		complete := err == nil && has(r.dir, completeFile)
		switch {
		case complete: // a new one of that name ends the undo
			err, r.rec = s.remove(ctx, r.dir), record{}
		case err == nil && r.rec.CredentialKey != credentialKey:
			err = fmt.Errorf("%w: review %q was begun by commands with credentials %q, and these have %q: each could read what the other leaves there", ErrCredentials, name, r.rec.CredentialKey, credentialKey)
		}
		if err == nil && !complete {
			return r, nil
		}
		hostpath.Unlock(r.lock)
		if err != nil {
			return nil, err
		}
	}
}

// prepare makes a review ready for commands. Its caller has the lock.
func (r *Review) prepare(ctx context.Context, sandbox, credentialKey string) error {
	err := r.store.read(r.dir, recordFile, &r.rec)
	if errors.Is(err, fs.ErrNotExist) {
		if err := onlyLocked(r.dir); err != nil {
			return err
		}
		r.rec = record{Sandbox: sandbox, CredentialKey: credentialKey, Created: time.Now()}
		return r.store.write(r.dir, recordFile, &r.rec)
	} else if err != nil {
		return err
	}
	_, err = r.recover(ctx)
	return err
}

// onlyLocked refuses a directory that has more than a review has before its record.
func onlyLocked(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != lockFile && !strings.HasPrefix(e.Name(), "new-") {
			return &fs.PathError{Op: "read", Path: hostpath.Quote(filepath.Join(dir, e.Name())), Err: errNotOurs}
		}
	}
	return err
}

// Add says that commands are about to see the overlay of a source, with the upper directory upper,
// whose mounter holds an exclusive lock on lock. It records the indexes in gitDirs that lie in the
// source.
func (r *Review) Add(ctx context.Context, source, upper, lock string, gitDirs ...string) error {
	r.adding.Lock()
	defer r.adding.Unlock()
	if slices.ContainsFunc(r.rec.Layers, func(l layerRecord) bool { return string(l.Source) == source }) {
		return nil
	}
	var at, here unix.Stat_t
	if err := errors.Join(unix.Lstat(source, &at), unix.Lstat(r.dir, &here)); err != nil {
		return err
	}
	if paths.Inside(source, r.dir) { // it could be neither mounted nor looked at
		return fmt.Errorf("%w: %q contains the review in %q", ErrPlace, source, r.dir)
	}
	if at.Dev != here.Dev {
		return fmt.Errorf("%w: %q lies on another file system, or subvolume, than the review in %q", ErrPlace, source, r.dir)
	}
	begun, err := tick(ctx, r.lock)
	if err != nil {
		return err
	}
	lower, err := openTree(source, false)
	if err != nil {
		return err
	}
	defer lower.close()
	indexes := map[string][]byte{}
	for _, dir := range gitDirs {
		p := strings.TrimPrefix(dir+"/index", source+"/")
		if !paths.Inside(source, dir) {
			continue
		}
		if index, ok, _ := lower.index(p, hashSize(p, lower)); ok { // another one is an ordinary file
			indexes[indexKey(p)] = []byte(index.Entries)
		}
	}
	known, err := r.known()
	if err != nil {
		return err
	}
	known = append(known, appliedPath{Layer: len(r.rec.Layers), Path: ".", Kind: Directory, Ino: at.Ino, Mode: at.Mode & 0o7777})
	if err := r.store.write(r.dir, knownFile, known); err != nil {
		return err
	}
	relative := func(p string) name { return name(strings.TrimPrefix(p, r.dir+"/")) }
	rec := r.rec
	rec.Layers = append(slices.Clip(rec.Layers), layerRecord{Source: name(source), Upper: relative(upper), Lock: relative(lock), Begun: begun, Indexes: indexes})
	if err = r.store.write(r.dir, recordFile, &rec); err == nil {
		r.rec = rec
	}
	return err
}

// tick returns the current time of the file system of an open file, after the next tick has begun: later
// changes differ from earlier ones.
func tick(ctx context.Context, fd int) (int64, error) {
	for begun := int64(0); ; {
		var st unix.Stat_t
		if err := errors.Join(unix.Futimes(fd, nil), unix.Fstat(fd, &st)); err != nil {
			return 0, err
		}
		if begun == 0 {
			begun = st.Ctim.Nano()
		} else if st.Ctim.Nano() > begun {
			return begun, nil
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// List lists the reviews, by name.
func (s *Store) List() (list []Info, err error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if err := hostpath.CheckPrivate(s.dir); err != nil {
		return nil, err
	}
	for _, e := range entries {
		one := Info{Name: e.Name()}
		dir := filepath.Join(s.dir, e.Name())
		var rec record
		if sessiondir.CheckName(one.Name) != nil || s.read(dir, recordFile, &rec) != nil {
			continue
		}
		one.Sandbox, one.Created = rec.Sandbox, rec.Created
		one.Used = one.Created
		if info, err := os.Lstat(filepath.Join(dir, lockFile)); err == nil {
			one.Used = info.ModTime()
		}
		applied := appliedIn(dir)
		if info, err := os.Lstat(filepath.Join(dir, applied)); err == nil {
			one.Applied, one.Complete, one.Used = true, applied == completeFile, info.ModTime()
		} else {
			one.Applied = has(dir, journalFile) // an apply was killed
		}
		if lock, err := lockIn(hostpath.NoWait(), dir); err == nil {
			hostpath.Unlock(lock)
		} else {
			one.InUse = errors.Is(err, ErrInUse)
		}
		list = append(list, one)
	}
	return list, nil // ReadDir sorts
}

// A Review is open in this process alone.
type Review struct {
	Name  string
	store *Store
	dir   string
	lock  int // an open file
	rec   record
	// Recovered describes what was done about an interrupted apply.
	Recovered []string

	adding sync.Mutex // guards rec.Layers while commands use the review

	trees []pair   // opened, by layer
	slots *tree    // opened by an apply or its undo
	git   *picture // from Changes
}

// pair are the two layers of a tree.
type pair struct {
	source       string
	upper, lower *tree
}

// Open opens a review when nobody uses it any more, also one that is only for an undo. It waits until
// ctx ends.
func (s *Store) Open(ctx context.Context, name string) (*Review, error) {
	if err := sessiondir.CheckName(name); err != nil {
		return nil, err
	}
	dir := filepath.Join(s.dir, name)
	r := &Review{Name: name, store: s, dir: dir}
	err := hostpath.CheckPrivate(dir)
	if err == nil {
		r.lock, err = lockIn(ctx, dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("review %q: %w", name, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	err = s.read(dir, recordFile, &r.rec)
	for _, l := range r.rec.Layers {
		if err == nil && has(dir, string(l.Lock)) { // its mounter may not be gone yet
			var fd int
			if fd, err = lockFileAt(ctx, filepath.Join(dir, string(l.Lock))); err == nil {
				hostpath.Unlock(fd)
			}
		}
	}
	if err == nil {
		r.Recovered, err = r.recover(ctx)
	}
	if err != nil {
		hostpath.Unlock(r.lock)
		return nil, err
	}
	return r, nil
}

// Sandbox is the definition of the review's first command.
func (r *Review) Sandbox() string { return r.rec.Sandbox }

// Dir is the directory for an engine's files.
func (r *Review) Dir() string { return r.dir }

// Sources are the review's directories of the host, the workspace first.
func (r *Review) Sources() (list []string) {
	for _, l := range r.rec.Layers {
		list = append(list, string(l.Source))
	}
	return list
}

// Close releases the review for others. A review in which no engine has stored anything, such as
// that of a refused command, goes then.
func (r *Review) Close() {
	r.closeTrees()
	if r.dir != "" && r.unused() {
		_ = r.store.remove(context.Background(), r.dir)
	}
	r.adding.Lock()
	defer r.adding.Unlock()
	hostpath.Unlock(r.lock)
	r.lock = -1 // no later Add takes a file of that number for the lock
}

func (r *Review) closeTrees() {
	for _, p := range r.trees {
		p.upper.close()
		p.lower.close()
	}
	r.slots.close()
	r.trees, r.slots = nil, nil
}

// openTrees opens all layers. A layer without writes may have no upper directory.
func (r *Review) openTrees() error {
	r.closeTrees()
	for _, l := range r.rec.Layers {
		upper, err := openTree(filepath.Join(r.dir, string(l.Upper)), true)
		var lower *tree
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			lower, err = openTree(string(l.Source), false)
		}
		r.trees = append(r.trees, pair{string(l.Source), upper, lower})
		if err != nil {
			return err
		}
	}
	return nil
}

// Discard removes the review with all its contents.
func (r *Review) Discard(ctx context.Context) error {
	r.closeTrees()
	dir := r.dir
	r.dir = "" // somebody else can begin a review of that name
	return r.store.remove(ctx, dir)
}

func (s *Store) remove(ctx context.Context, dir string) error {
	gone := gonePrefix + rand.Text()
	if err := os.Rename(dir, filepath.Join(s.dir, gone)); err != nil {
		return err
	}
	return sessiondir.RemoveTree(ctx, s.dir, gone)
}

// lockIn takes the lock of a review's directory. It returns fs.ErrNotExist if the directory is
// gone.
func lockIn(ctx context.Context, dir string) (int, error) {
	return lockFileAt(ctx, filepath.Join(dir, lockFile))
}

func lockFileAt(ctx context.Context, file string) (int, error) {
	fd, err := hostpath.LockAt(ctx, unix.AT_FDCWD, file, unix.LOCK_EX)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = sessiondir.InUse(fmt.Sprintf("review %q", filepath.Base(filepath.Dir(file))), file, ErrInUse)
	}
	return fd, err
}

// shown is a path of a tree as people know it.
func (r *Review) shown(layer int, p string) string {
	full := filepath.Join(string(r.rec.Layers[layer].Source), p)
	if full == r.store.root {
		return "."
	}
	return strings.TrimPrefix(full, r.store.root+"/")
}

func (r *Review) quoted(at Place) string { return hostpath.Quote(r.shown(at.Layer, string(at.Path))) }
