package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/config"
)

func TestSuggestions(t *testing.T) {
	t.Parallel()
	a, _, _, _ := testApp(t, nil, "")
	bin := filepath.Join(a.Dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "mytool"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, args := range []string{
		"exce -- ls", "valid", "frobnicate", "mytool", "engines tst", "engines frobnicate", "help exce", "help engines tst",
		"exec -netwrk=true ls", "exec -frobnicate ls", "exec", "exec -c", "exec -network ls", "exec -timeout 5 ls",
		"init a b", "engines test native -run X", "doctor -seen x", "explain -sandbx fast", "exec -sandbox fsat ls", "exec -sandbox other ls",
	} {
		a, _, errs, path := testApp(t, &fakeEngine{}, fastConfig)
		a.Environ = append(a.Environ, "SBXHOST_CONFIG="+path, "PATH="+bin)
		status := runLine(a, strings.Fields(args))
		if status != cli.StatusFailed {
			t.Errorf("%q: status %d", args, status)
		}
		b.WriteString("$ sbxhost " + args + "\n" + strings.ReplaceAll(errs.String(), filepath.Dir(path), "$DIR") + "\n")
	}
	golden(t, "suggestions.txt", b.String())
}

// Each attribute and block, misspelled, is reported at its place with its right
// name.
func TestEveryTypoIsUnderstood(t *testing.T) {
	t.Parallel()
	type typo struct{ block, name string }
	var typos []typo
	for block, name := range config.Reference {
		typos = append(typos, typo{block, name})
	}
	for _, block := range []string{"sandbox", "engine", "workspace", "approvals", "session", "limits", "config"} {
		typos = append(typos, typo{block: block})
	}
	for _, typo := range typos {
		name := typo.name
		if name == "" {
			name = typo.block
		}
		wrong := name + name[len(name)-1:] // one letter is doubled
		line := wrong + " = 1"
		text := ""
		switch {
		case typo.name == "" && (typo.block == "limits" || typo.block == "session" || typo.block == "config"):
			text = "sandbox \"s\" {\n" + wrong + " {}\n}\n"
		case typo.name == "":
			text = "\n" + wrong + " \"s\" {}\nsandbox \"s\" {}\n"
		case typo.block == "":
			text = "\n" + line + "\nsandbox \"s\" {}\n"
		case typo.block == "limits" || typo.block == "session":
			text = "sandbox \"s\" { \n" + typo.block + " {\n" + line + "\n}\n}\n"
		case typo.block == "bind_paths":
			text = "sandbox \"s\" {\nbind_paths = [{ host = \"/x\", " + line + " }]\n}\n"
		case typo.block == "sandbox" || typo.block == "engine" || typo.block == "credential":
			text = typo.block + " \"s\" {\n" + line + "\n}\nsandbox \"t\" {}\n"
		default:
			text = typo.block + " {\n" + line + "\n}\nsandbox \"s\" {}\n"
		}
		at := " line 2"
		if (typo.block == "limits" || typo.block == "session") && typo.name != "" {
			at = " line 3"
		}
		a, _, errs, path := testApp(t, nil, text)
		status := runLine(a, []string{"validate", "-config", path})
		said := strings.Join(strings.Fields(errs.String()), " ")
		if status != cli.StatusFailed || !strings.Contains(said, path+at) || !strings.Contains(said, `Did you mean "`+name+`"?`) {
			t.Errorf("%s.%s as %q: status %d\n%s", typo.block, name, wrong, status, errs)
		}
	}
}
