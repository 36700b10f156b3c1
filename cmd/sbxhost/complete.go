package main

import (
	"github.com/posener/complete"

	"github.com/sbxhost/sbxhost/approvals"
	"github.com/sbxhost/sbxhost/config"
)

// Completion runs only where a shell asks for it, by COMP_LINE.

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

// What each subcommand completes, for cli.CommandAutocomplete.

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
