package test

import (
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var corpus = flag.Bool("corpus", false, "judge hints by the failures of test/corpus, and print what they are worth")

// A labelled failure is a line of a file in test/corpus.
type labelled struct {
	failure
	tool      string
	labels    []label // any of which is right; none: there is nothing to say
	optional  bool    // saying nothing is right too
	succeeds  bool    // the command's status is 0
	unlabeled bool    // what a machine has for the failures after it
}

// A label is what explains a failure, and the least change that lets the command, if there is one.
type label struct{ attribute, about, change string }

func readCorpus(t *testing.T, name string) (list []labelled) {
	text, err := os.ReadFile("corpus/" + name + ".tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) == 1 && len(list) > 0 {
			list[len(list)-1].script += "\n" + line
			continue
		}
		if len(fields) < 3 {
			t.Fatalf("no label or no script: %q", line)
		}
		c := labelled{unlabeled: fields[0] == "@"}
		c.tool, c.succeeds = strings.CutSuffix(fields[0], "=0")
		if c.script = fields[2]; len(fields) > 3 {
			c.attributes = strings.NewReplacer("{ ", "{\n", " }", "\n}", "} ", "}\n").Replace(fields[3])
		}
		if len(fields) > 4 {
			c.flags = strings.Fields(fields[4])
		}
		if c.unlabeled {
			list = append(list, c)
			continue
		}
		fields[1], c.optional = strings.CutPrefix(fields[1], "?")
		for one := range strings.SplitSeq(fields[1], "; ") {
			of, change, _ := strings.Cut(one, " => ")
			if attribute, about, ok := strings.Cut(of, " "); ok {
				c.labels = append(c.labels, label{attribute, about, change})
			} else if one != "nothing" {
				t.Fatalf("no label: %q", one)
			}
		}
		list = append(list, c)
	}
	return list
}

// is reports whether a denial is what a label says, and whether it asks for no more.
func (l label) is(p *failurePlace, d *denied) (right, least bool) {
	expand := strings.NewReplacer("$OUT", p.base+"/out", "$PORT", p.port)
	about := expand.Replace(strings.TrimPrefix(l.about, "*"))
	vague := d.Path == "" && d.Host == ""
	right = d.Attribute == strings.TrimPrefix(l.attribute, "-") && (vague || strings.HasSuffix(d.Path, about) || strings.HasSuffix(d.Host, about))
	return right, right && (d.Change == "" || d.Change == expand.Replace(l.change) || l.change == "*")
}

// TestCorpus prints, with -corpus, how many hints are right, how many ask for the least, and of how many
// failures. What a tool says is the tool's: the figures change with it, and fail nothing.
func TestCorpus(t *testing.T) {
	for name, least := range map[string]int{"failures": 145, "blind": 130} {
		t.Run(name, func(t *testing.T) {
			list := readCorpus(t, name)
			if len(list) < least {
				t.Errorf("%d failures", len(list))
			}
			if *corpus {
				judge(t, name, list)
			}
		})
	}
}

func judge(t *testing.T, name string, list []labelled) {
	p := newFailurePlace(t)
	var run, missing, hints, wrong, more, explained, toExplain int
	for i, c := range list {
		if c.unlabeled {
			setUp(t, p, c.script)
			continue
		}
		if _, err := exec.LookPath(c.tool); err != nil && !strings.HasPrefix(c.tool, "~") {
			t.Logf("%s is not installed", c.tool)
			missing++
			continue
		}
		if strings.HasPrefix(c.tool, "~") { // whose words are not to be found in the script
			function, call, ok := cutLast(c.script, "}; ")
			if name := filepath.Join(p.base, "w", fmt.Sprint("function", i)); !ok || os.WriteFile(name, []byte(function+"}\n"), 0o644) != nil {
				t.Fatalf("no function: %s", c.script)
			} else {
				c.script = ". ./" + filepath.Base(name) + "; " + call
			}
		}
		denials, status, out := p.run(t, fmt.Sprint("corpus", i), c.attributes, []string{"PORT"}, c.script, c.flags...)
		if (status == 0) != c.succeeds {
			t.Logf("%s: its status is %d here: %s", c.tool, status, c.script)
			missing++
			continue
		}
		run++
		t.Logf("%s: %s\n%s", c.tool, c.script, out)
		found := false
		for k := range denials[:min(len(denials), 2)] { // as many are told
			d := &denials[k]
			hints++
			right, least := false, false
			for _, l := range c.labels {
				r, fits := l.is(p, d)
				right, least = right || r, least || fits
			}
			if found = found || right; !right {
				wrong++
				t.Logf("WRONG %s: %s\n  says %s (%s) %q, labelled %v", c.tool, c.script, d.Reason, d.Attribute, d.Change, c.labels)
			} else if !least {
				more++
				t.Logf("MORE  %s: %s\n  asks for %q, labelled %v", c.tool, c.script, d.Change, c.labels)
			}
		}
		if len(c.labels) == 0 || c.optional {
			continue
		}
		if toExplain++; found {
			explained++
		} else {
			t.Logf("QUIET %s: %s\n  labelled %v", c.tool, c.script, c.labels)
		}
	}
	fmt.Printf("%s: %d failures of %d run here, %d do not: %d hints, %d with a false cause, %d that ask for more: precision %.3f; explained %d of %d: %.3f\n",
		name, run, len(list), missing, hints, wrong, more, float64(hints-wrong-more)/float64(max(hints, 1)), explained, toExplain, float64(explained)/float64(max(toExplain, 1)))
}

// setUp makes what the next failures are about: by a script that runs without a sandbox, and two sockets.
func setUp(t *testing.T, p *failurePlace, script string) {
	for _, name := range []string{"out/app.sock", "out/pg/.s.PGSQL.5432"} {
		name = filepath.Join(p.base, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
	}
	cmd := exec.Command("sh", "-c", strings.ReplaceAll(script, "$OUT", p.base+"/out"))
	cmd.Dir, cmd.Env = p.base+"/w", p.env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
