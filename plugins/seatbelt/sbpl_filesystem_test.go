package seatbelt

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// sbplFiles is a small world of names. Its zero value has nothing but the
// links of every macOS.
type sbplFiles struct {
	// Links are symbolic links: the link's resolved path to its target.
	Links map[string]string
	// Entries are the paths that exist, in the spelling in which they are stored.
	Entries []string
	// Volume are /.vol names, such as "/.vol/1/2", to what they stand for.
	Volume map[string]string
}

// topLinks are the links that every macOS has.
var topLinks = map[string]string{
	"/tmp": "private/tmp", "/var": "private/var", "/etc": "private/etc", "/home": "System/Volumes/Data/home",
}

const maxModelLinks = 32

// Resolve gives the path that the kernel matches for a name: of what it finds
// or, where there is nothing, of the directory that was found with the last names
// as they were given. With follow false a link at the end is not followed.
func (f *sbplFiles) Resolve(name string, follow bool) string {
	for from, to := range f.Volume {
		if beneath(name, from) {
			name = to + strings.TrimPrefix(name, from)
			break
		}
	}
	return f.walk("/", path.Clean("/"+name), follow, 0)
}

func (f *sbplFiles) walk(at, rest string, follow bool, links int) string {
	names := strings.Split(strings.Trim(rest, "/"), "/")
	for i, name := range names {
		if name == "" {
			continue
		}
		at = f.stored(path.Join(at, name))
		target, ok := f.Links[at]
		if !ok {
			target, ok = topLinks[at]
		}
		if last := i == len(names)-1; ok && links < maxModelLinks && (follow || !last) {
			if !path.IsAbs(target) {
				target = path.Join(path.Dir(at), target)
			}
			return f.walk("/", path.Join(append([]string{target}, names[i+1:]...)...), follow, links+1)
		}
	}
	return at
}

// modelDataVolume is the writable half of the system volume; what lies on it shows at
// the top through firmlinks, and the kernel gives that path.
const modelDataVolume = "/System/Volumes/Data"

// firmlinks are the directories of the top that lie on the data volume.
var firmlinks = [...]string{"/Users", "/private", "/Applications", "/Library", "/Volumes", "/opt", "/cores", "/usr/local"}

// stored gives the spelling of what exists.
func (f *sbplFiles) stored(p string) string {
	for _, top := range firmlinks {
		if rest, ok := strings.CutPrefix(p, modelDataVolume); ok && beneath(rest, top) {
			p = rest
			break
		}
	}
	folded := foldAPFS(p)
	for _, e := range f.Entries {
		if e == p {
			return p
		}
	}
	for _, e := range f.Entries {
		if foldAPFS(e) == folded {
			return e
		}
	}
	return p
}

// foldAPFS gives one spelling for all names that APFS takes for the same, as far as
// the characters go that tests use: case, composed letters with an acute accent or
// a diaeresis, ligatures, and letters that fold to ASCII.
func foldAPFS(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		s = s[size:]
		if long, ok := apfsFolds[r]; ok {
			b.WriteString(long)
			continue
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

var apfsFolds = map[rune]string{
	'é': "e\u0301", 'É': "e\u0301", 'ö': "o\u0308", 'Ö': "o\u0308", 'ü': "u\u0308", 'Ü': "u\u0308",
	'ſ': "s", '\u212a': "k", 'ß': "ss", 'ẞ': "ss",
	'ﬀ': "ff", 'ﬁ': "fi", 'ﬂ': "fl", 'ﬃ': "ffi", 'ﬄ': "ffl", 'ﬅ': "st", 'ﬆ': "st",
}
