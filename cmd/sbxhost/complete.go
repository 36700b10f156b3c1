package main

import (
	"github.com/posener/complete"
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
	file, _, _, err := a.read(explicit)
	if err != nil {
		return nil
	}
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
		"-c":         complete.PredictAnything,
		"-t":         complete.PredictNothing,
	}
}

func completeConfig() complete.Flags {
	return complete.Flags{"-config": complete.PredictFiles("*.hcl"), "-json": complete.PredictNothing}
}

func completeEngines() complete.Predictor {
	return complete.PredictSet("bwrap", "noop", "seatbelt")
}

// What each subcommand completes, for cli.CommandAutocomplete.

func (*execCommand) AutocompleteArgs() complete.Predictor { return complete.PredictFiles("*") }

func (c *execCommand) AutocompleteFlags() complete.Flags {
	flags := c.completeRun()
	flags["-i"] = complete.PredictNothing
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

func (*enginesTestCommand) AutocompleteArgs() complete.Predictor {
	return complete.PredictOr(completeEngines(), complete.PredictFiles("*"))
}

func (*enginesTestCommand) AutocompleteFlags() complete.Flags {
	flags := completeConfig()
	for _, name := range []string{"-run", "-stream-mib"} {
		flags[name] = complete.PredictAnything
	}
	for _, name := range []string{"-probes", "-contract", "-failed", "-session", "-unconfined"} {
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
