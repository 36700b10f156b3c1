package test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

var corpus = flag.Bool("corpus", false, "judge hints by the failures of test/corpus, and print what they are worth")

// A labelled failure is one of test/corpus/failures.tsv.
type labelled struct {
	failure
	tool   string
	labels []label // any of which is right; none: there is nothing to say
}

// A label is what explains a failure, and the least change that lets the command, if there is one.
type label struct{ attribute, about, change string }

func readCorpus(t *testing.T) (list []labelled) {
	text, err := os.ReadFile("corpus/failures.tsv")
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
		c := labelled{tool: fields[0]}
		if c.script = fields[2]; len(fields) > 3 {
			c.attributes = strings.NewReplacer("{ ", "{\n", " }", "\n}").Replace(fields[3])
		}
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
	return right, right && (d.Change == "" || d.Change == expand.Replace(l.change))
}

// TestCorpus prints, with -corpus, how many hints are right, how many ask for the least, and of how many
// failures. What a tool says is the tool's: the figures change with it, and fail nothing.
func TestCorpus(t *testing.T) {
	list := readCorpus(t)
	if len(list) < 145 {
		t.Errorf("%d failures", len(list))
	}
	if !*corpus {
		return
	}
	p := newFailurePlace(t)
	var run, missing, hints, wrong, more, explained, toExplain int
	for i, c := range list {
		if _, err := exec.LookPath(c.tool); err != nil && !strings.HasPrefix(c.tool, "~") {
			missing++
			continue
		}
		denials, status, out := p.run(t, fmt.Sprint("corpus", i), c.attributes, []string{"PORT"}, c.script)
		if status == 0 {
			t.Logf("%s: it does not fail here: %s", c.tool, c.script)
			missing++
			continue
		}
		run++
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
		if len(c.labels) == 0 {
			continue
		}
		if toExplain++; found {
			explained++
		} else {
			t.Logf("QUIET %s: %s\n  labelled %v, said %.300s", c.tool, c.script, c.labels, out)
		}
	}
	fmt.Printf("%d failures of %d run here, %d do not: %d hints, %d with a false cause, %d that ask for more: precision %.3f; explained %d of %d: %.3f\n",
		run, len(list), missing, hints, wrong, more, float64(hints-wrong-more)/float64(max(hints, 1)), explained, toExplain, float64(explained)/float64(max(toExplain, 1)))
}
