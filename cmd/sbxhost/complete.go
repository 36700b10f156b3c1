package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/posener/complete"

	"github.com/sbxhost/sbxhost/approvals"
	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/host"
)

// offer gives a shell what may follow a line, which it gives by COMP_LINE.
func (a *app) offer(commands map[string]subcommand, line string) {
	if point, err := strconv.Atoi(a.getenv("COMP_POINT")); err == nil && point >= 0 && point < len(line) {
		line = line[:point]
	}
	all := complete.Command{Sub: complete.Commands{}, Flags: complete.Flags{}}
	for _, flag := range []string{"-autocomplete-install", "-autocomplete-uninstall", "-help", "-version"} {
		all.Flags[flag] = complete.PredictNothing
	}
	for _, name := range slices.Sorted(maps.Keys(commands)) {
		c := complete.Command{Args: commands[name].AutocompleteArgs(), Flags: commands[name].AutocompleteFlags(), Sub: complete.Commands{}}
		if parent, word, ok := strings.Cut(name, " "); ok {
			all.Sub[parent].Sub[word] = c
		} else {
			all.Sub[name] = c
		}
	}
	words := append(strings.Fields(line)[1:], "") // after sbxhost
	if !strings.HasSuffix(line, " ") && len(words) > 1 {
		words = words[:len(words)-1]
	}
	typed := words[len(words)-1]
	if flag, value, ok := strings.Cut(typed, "="); ok {
		words, typed = append(words[:len(words)-1], flag, value), value
	}
	args := complete.Args{All: words, Completed: words[:len(words)-1], Last: typed}
	if n := len(words); n > 1 {
		args.LastCompleted = words[n-2]
	}
	for _, option := range all.Predict(args) {
		if strings.HasPrefix(option, typed) {
			fmt.Fprintln(a.stdout, option)
		}
	}
}

// setCompletion has the shells that their user has set up ask sbxhost for completions,
// or no more.
func (a *app) setCompletion(wanted bool) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	home := a.getenv("HOME")
	config := cmp.Or(a.getenv("XDG_CONFIG_HOME"), filepath.Join(home, ".config"))
	found := false
	for _, shell := range []struct{ text, dir, files string }{
		{"complete -C %s sbxhost\n", home, ".bashrc .bash_profile .bash_login .profile"},
		{"autoload -U +X bashcompinit && bashcompinit\ncomplete -o nospace -C %s sbxhost\n", home, ".zshrc"},
		{"function __complete_sbxhost\n    set -lx COMP_LINE (commandline -cp)\n    test -z (commandline -ct)\n    and set COMP_LINE \"$COMP_LINE \"\n    %s\nend\n" +
			"complete -f -c sbxhost -a \"(__complete_sbxhost)\"\n", filepath.Join(config, "fish"), "config.fish"},
	} {
		text := fmt.Sprintf(shell.text, shellQuote(program))
		for name := range strings.FieldsSeq(shell.files) {
			path := filepath.Join(shell.dir, name)
			switch err := a.setLine(path, "\n"+text, wanted); {
			case errors.Is(err, fs.ErrNotExist):
				continue
			case err != nil:
				return err
			}
			found = true
			break
		}
	}
	if !found && wanted {
		return errors.New("there is no .bashrc, .zshrc or config.fish to put it in: make the one of your shell")
	}
	return nil
}

// setLine has a file that is there end with text, or not hold it.
func (a *app) setLine(path, text string, wanted bool) error {
	w, err := a.openWriting(path, host.Options{})
	if err != nil {
		return err
	}
	defer w.close()
	was, err := os.ReadFile(w.path)
	if err != nil {
		return err
	}
	is := strings.ReplaceAll(string(was), text, "")
	if wanted {
		is += text
	}
	return w.replace(was, []byte(is))
}

// sandboxNames completes the names in the configuration that would be in force.
func (a *app) sandboxNames(args complete.Args) []string {
	explicit := ""
	for i, word := range args.All {
		if (word == "-config" || word == "--config") && i+1 < len(args.All) {
			explicit = args.All[i+1]
		}
	}
	path, origin, err := a.find(explicit)
	if err != nil {
		return nil
	}
	// A key must not have an untrusted file evaluated, nor a question asked.
	if origin == config.OriginWorkspace && !a.trusts(path) {
		return nil
	}
	file, _ := config.Load(path, a.evalInput())
	return file.Names()
}

func (a *app) completeRun() complete.Flags {
	yesNo := complete.PredictSet("true", "false")
	return complete.Flags{
		"-sandbox":   complete.PredictFunc(a.sandboxNames),
		"-config":    complete.PredictFiles("*.hcl"),
		"-workdir":   complete.PredictDirs("*"),
		"-network":   yesNo,
		"-read-only": complete.PredictNothing,
		"-timeout":   complete.PredictAnything,
		"-env":       complete.PredictAnything,
		"-session":   a.completeSessions(),
		"-c":         complete.PredictAnything,
		"-t":         complete.PredictNothing,
	}
}

func completeConfig() complete.Flags {
	return complete.Flags{"-config": complete.PredictFiles("*.hcl"), "-json": complete.PredictNothing}
}

func completeEngines() complete.Predictor {
	return complete.PredictSet("native", "bwrap", "noop", "seatbelt")
}

// What each subcommand completes, for subcommand.

func (*execCommand) AutocompleteArgs() complete.Predictor { return complete.PredictFiles("*") }

func (c *execCommand) AutocompleteFlags() complete.Flags {
	flags := c.completeRun()
	flags["-i"] = complete.PredictNothing
	flags["-no-sandbox"] = complete.PredictNothing
	flags["-session"] = complete.PredictAnything
	flags["-result"] = complete.PredictFiles("*")
	flags["-quiet"] = complete.PredictNothing
	return flags
}

func (*explainCommand) AutocompleteArgs() complete.Predictor { return complete.PredictFiles("*") }

func (c *explainCommand) AutocompleteFlags() complete.Flags {
	flags := c.completeRun()
	flags["-json"] = complete.PredictNothing
	return flags
}

func (*validateCommand) AutocompleteArgs() complete.Predictor { return complete.PredictNothing }
func (*validateCommand) AutocompleteFlags() complete.Flags    { return completeConfig() }

func (*fmtCommand) AutocompleteArgs() complete.Predictor { return complete.PredictFiles("*.hcl") }

func (*fmtCommand) AutocompleteFlags() complete.Flags {
	return complete.Flags{"-check": complete.PredictNothing, "-write": complete.PredictSet("true", "false")}
}

func (*initCommand) AutocompleteArgs() complete.Predictor { return complete.PredictDirs("*") }

func (*initCommand) AutocompleteFlags() complete.Flags {
	return complete.Flags{"-force": complete.PredictNothing}
}

func (*versionCommand) AutocompleteArgs() complete.Predictor { return complete.PredictNothing }

func (*versionCommand) AutocompleteFlags() complete.Flags {
	return complete.Flags{"-json": complete.PredictNothing}
}

func (*enginesCommand) AutocompleteArgs() complete.Predictor { return complete.PredictNothing }
func (*enginesCommand) AutocompleteFlags() complete.Flags    { return nil }

func (*enginesListCommand) AutocompleteArgs() complete.Predictor { return complete.PredictNothing }
func (*enginesListCommand) AutocompleteFlags() complete.Flags    { return completeConfig() }

func (*enginesProbeCommand) AutocompleteArgs() complete.Predictor { return completeEngines() }
func (*enginesProbeCommand) AutocompleteFlags() complete.Flags    { return completeConfig() }

func (*enginesSchemaCommand) AutocompleteArgs() complete.Predictor { return completeEngines() }

func (*enginesSchemaCommand) AutocompleteFlags() complete.Flags {
	flags := completeConfig()
	flags["-json-schema"] = complete.PredictNothing
	return flags
}

func (*enginesVerifyCommand) AutocompleteArgs() complete.Predictor { return complete.PredictAnything }
func (*enginesVerifyCommand) AutocompleteFlags() complete.Flags    { return completeConfig() }
func (*enginesPinCommand) AutocompleteArgs() complete.Predictor    { return complete.PredictAnything }

func (*enginesPinCommand) AutocompleteFlags() complete.Flags {
	return complete.Flags{"-config": complete.PredictFiles("*.hcl"), "-n": complete.PredictNothing}
}

func (*sessionsCommand) AutocompleteArgs() complete.Predictor { return complete.PredictNothing }
func (*sessionsCommand) AutocompleteFlags() complete.Flags    { return nil }

func (c *sessionsListCommand) AutocompleteArgs() complete.Predictor { return c.completeSessions() }
func (*sessionsListCommand) AutocompleteFlags() complete.Flags      { return completeJSON() }

func (c *sessionsRmCommand) AutocompleteArgs() complete.Predictor { return c.completeSessions() }
func (*sessionsRmCommand) AutocompleteFlags() complete.Flags      { return completeJSON() }

func (a *app) completeSessions() complete.Predictor {
	return complete.PredictFunc(func(complete.Args) []string { return a.sessionNames() })
}

func completeJSON() complete.Flags {
	return complete.Flags{"-json": complete.PredictNothing}
}
func (*trustCommand) AutocompleteArgs() complete.Predictor { return complete.PredictFiles("*.hcl") }

func (*trustCommand) AutocompleteFlags() complete.Flags {
	return complete.Flags{"-list": complete.PredictNothing, "-revoke": complete.PredictNothing, "-json": complete.PredictNothing}
}

func (*approvalsCommand) AutocompleteArgs() complete.Predictor     { return complete.PredictNothing }
func (*approvalsCommand) AutocompleteFlags() complete.Flags        { return nil }
func (*approvalsListCommand) AutocompleteArgs() complete.Predictor { return complete.PredictNothing }

func (*approvalsListCommand) AutocompleteFlags() complete.Flags {
	return complete.Flags{"-json": complete.PredictNothing}
}

func (*approvalsAddCommand) AutocompleteArgs() complete.Predictor { return complete.PredictFiles("*") }

func (c *approvalsAddCommand) AutocompleteFlags() complete.Flags {
	flags := c.completeRun()
	flags["-scope"] = complete.PredictSet("once", "session", "always")
	flags["-session"] = complete.PredictAnything
	flags["-no-sandbox"] = complete.PredictNothing
	return flags
}

func (c *approvalsRevokeCommand) AutocompleteArgs() complete.Predictor {
	return complete.PredictFunc(func(complete.Args) []string {
		var ids []string
		if store, err := c.store(); err == nil {
			list, _ := store.List()
			for _, a := range list {
				ids = append(ids, a.ID)
			}
		}
		return ids
	})
}

func (*approvalsRevokeCommand) AutocompleteFlags() complete.Flags   { return nil }
func (*approvalsClearCommand) AutocompleteArgs() complete.Predictor { return complete.PredictNothing }
func (*approvalsClearCommand) AutocompleteFlags() complete.Flags    { return nil }

// trusts reports whether a configuration, by a path of trustPlace, is trusted
// as it is now.
func (a *app) trusts(path string) bool {
	text, err := config.Read(path)
	if err != nil {
		return false
	}
	store, err := a.store()
	if err != nil {
		return false
	}
	state, _, err := store.Trusts(path, text)
	return err == nil && state == approvals.TrustConfirmed
}

func (*enginesTestCommand) AutocompleteArgs() complete.Predictor {
	return complete.PredictOr(completeEngines(), complete.PredictFiles("*"))
}

func (*enginesTestCommand) AutocompleteFlags() complete.Flags {
	flags := completeConfig()
	for _, name := range []string{"-run", "-stream-mib", "-options"} {
		flags[name] = complete.PredictAnything
	}
	for _, name := range []string{"-probes", "-contract", "-failed", "-session", "-unconfined", "-brief"} {
		flags[name] = complete.PredictNothing
	}
	return flags
}

func (*doctorCommand) AutocompleteArgs() complete.Predictor { return complete.PredictNothing }

func (*doctorCommand) AutocompleteFlags() complete.Flags {
	flags := completeConfig()
	flags["-probe"] = complete.PredictNothing
	return flags
}
