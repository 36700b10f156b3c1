package env

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

func TestCompute(t *testing.T) {
	t.Parallel()
	callerEnv := []string{
		"PATH=/usr/bin:bin:/work/bin:/bin:/usr/bin", "HOME=/home/u", "TERM=xterm", "LC_CTYPE=C", "LC_ALL=C.UTF-8",
		"SECRET=s3cret", "GOFLAGS=-mod=mod", "LD_PRELOAD=/tmp/x.so", "NODE_OPTIONS=--require=x", "GIT_SSH_COMMAND=evil",
		"BASH_FUNC_ls%%=() { evil; }", "SBXHOST_SESSION=abc", "DUP=first", "DUP=last", "TMPDIR=/var/folders/x", "malformed",
	}
	usable := func(dir string) bool { return !strings.HasPrefix(dir, "/work") }
	for _, test := range []struct {
		name string
		in   Input
		want []string
		from map[string]string
	}{
		{
			name: "the built-in list alone",
			in:   Input{UsablePath: usable, UsableTemp: func(string) bool { return false }},
			want: []string{"HOME=/home/u", "LC_ALL=C.UTF-8", "PATH=/usr/bin:/bin", "TERM=xterm"},
			from: map[string]string{"HOME": "built-in list"},
		},
		{
			name: "the sandbox says that it is one",
			in:   Input{Sandbox: "fast", Home: "/run/home", User: map[string]string{"HOME": "/"}, UsablePath: usable, UsableTemp: func(string) bool { return false }},
			want: []string{"HOME=/run/home", "LC_ALL=C.UTF-8", "PATH=/usr/bin:/bin", "SBXHOST=1", "SBXHOST_SANDBOX=fast", "TERM=xterm"},
			from: map[string]string{"HOME": "private home", "SBXHOST": "the sandbox"},
		},
		{
			name: "globs pass names on, and never an injector",
			in:   Input{Passthrough: []string{"LC_*", "GO*", "*"}, UsablePath: usable},
			want: []string{"DUP=last", "GOFLAGS=-mod=mod", "HOME=/home/u", "LC_ALL=C.UTF-8", "LC_CTYPE=C", "PATH=/usr/bin:/bin", "SECRET=s3cret", "TERM=xterm", "TMPDIR=/var/folders/x"},
			from: map[string]string{"GOFLAGS": `env_passthrough "GO*"`, "SECRET": `env_passthrough "*"`},
		},
		{
			name: "later sources win, and an exact name sets an injector",
			in: Input{
				UsablePath: usable, UsableTemp: func(string) bool { return false },
				Workspace: map[string]string{"GIT_AUTHOR_NAME": "A", "TERM": "workspace"},
				User:      map[string]string{"HOME": "/home/owner", "USER": ""},
				Definition: map[string]string{
					"TERM": "dumb", "NODE_OPTIONS": "--max-old-space-size=1", "PATH": "relative:/kept",
				},
				Command: []string{"TERM=vt100", "SECRET", "ABSENT"},
			},
			want: []string{"GIT_AUTHOR_NAME=A", "HOME=/home/owner", "LC_ALL=C.UTF-8", "NODE_OPTIONS=--max-old-space-size=1", "PATH=relative:/kept", "SECRET=s3cret", "TERM=vt100"},
			from: map[string]string{"TERM": "command", "PATH": "env", "HOME": "run as the workspace's owner"},
		},
		{
			name: "the workspace's, unless it is set by name",
			in: Input{
				Passthrough: []string{"GIT_*"}, UsablePath: usable, UsableTemp: func(string) bool { return false },
				Workspace:  map[string]string{"GIT_AUTHOR_NAME": "Some = Body", "GIT_AUTHOR_EMAIL": "b@example.com", "GIT_COMMITTER_EMAIL": "c@example.com"},
				Definition: map[string]string{"GIT_AUTHOR_EMAIL": "d@example.com"},
				Command:    []string{"GIT_COMMITTER_EMAIL=e@example.com"},
			},
			want: []string{"GIT_AUTHOR_EMAIL=d@example.com", "GIT_AUTHOR_NAME=Some = Body", "GIT_COMMITTER_EMAIL=e@example.com",
				"HOME=/home/u", "LC_ALL=C.UTF-8", "PATH=/usr/bin:/bin", "TERM=xterm"},
			from: map[string]string{"GIT_AUTHOR_NAME": "workspace.env", "GIT_AUTHOR_EMAIL": "env", "GIT_COMMITTER_EMAIL": "command"},
		},
		{
			name: "a PATH with nothing usable becomes the system's",
			in:   Input{UsablePath: func(string) bool { return false }, UsableTemp: func(string) bool { return false }},
			want: []string{"HOME=/home/u", "LC_ALL=C.UTF-8", "PATH=" + defaultPath, "TERM=xterm"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.in.Caller = callerEnv
			env, origins, err := Compute(test.in)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(env, test.want) {
				t.Errorf("got  %q\nwant %q", env, test.want)
			}
			got := map[string]string{}
			for _, o := range origins {
				got[o.Name] = o.Origin
			}
			if len(origins) != len(env) {
				t.Errorf("%d variables have %d origins", len(env), len(origins))
			}
			for name, want := range test.from {
				if got[name] != want {
					t.Errorf("%s comes from %q, want %q", name, got[name], want)
				}
			}
		})
	}
}

func TestComputeErrors(t *testing.T) {
	t.Parallel()
	triple := []Secret{{"GIT_CONFIG_COUNT", "1", `credentials "github"`}}
	for _, test := range []struct {
		in        Input
		attribute string
	}{
		{Input{Passthrough: []string{"OK", "LD_PRELOAD"}}, "env_passthrough[1]"},
		{Input{Passthrough: []string{"BASH_FUNC_x%%"}}, "env_passthrough[0]"},
		{Input{Caller: []string{"A=1"}, Passthrough: []string{"[a"}}, "env_passthrough[0]"},
		{Input{Definition: map[string]string{"A=B": "c"}}, "env"},
		{Input{Definition: map[string]string{"A": "b\x00c"}}, "env A"},
		{Input{Command: []string{"X=1", "=2"}}, "Env[1]"},
		{Input{Credentials: triple, Definition: map[string]string{"GIT_CONFIG_KEY_0": "http.extraHeader"}}, "env"},
		{Input{Credentials: triple, Workspace: map[string]string{"GIT_CONFIG_COUNT": "9"}}, "workspace.env"},
		{Input{Credentials: triple, Command: []string{"GIT_CONFIG_KEY_0"}}, "Env[0]"},
		{Input{Withheld: []string{"hunter22"}, Command: []string{"X=a hunter22"}}, "Env"},
		{Input{Withheld: []string{"hunter2"}, Command: []string{"X=hunter2"}}, "Env"},
		{Input{Withheld: []string{"hunter22"}, Definition: map[string]string{"X": "hunter22"}}, "credentials"},
	} {
		_, _, err := Compute(test.in)
		var e *shared.Error
		if !errors.As(err, &e) || e.Attribute != test.attribute || !errors.Is(err, shared.ErrInvalidSpec) {
			t.Errorf("%+v: got %v, want an error at %s", test.in, err, test.attribute)
		}
	}
}

func TestInjectors(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"LD_AUDIT", "DYLD_INSERT_LIBRARIES", "GLIBC_TUNABLES", "BASH_ENV", "ENV", "PROMPT_COMMAND", "BASH_FUNC_ls%%", "BASH_FUNC_/bin/ls%%", "ZDOTDIR", "IFS",
		"NODE_OPTIONS", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONWARNINGS", "PERL5OPT", "PERLLIB", "RUBYOPT", "LUA_INIT_5_4", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS",
		"DOTNET_STARTUP_HOOKS", "CORECLR_PROFILER_PATH", "COR_PROFILER", "PHPRC", "PHP_INI_SCAN_DIR", "R_PROFILE_USER", "ERL_AFLAGS", "PAGER", "MANPAGER", "LESSOPEN",
		"EDITOR", "VISUAL", "BROWSER", "TERMINFO", "TERMCAP", "HOSTALIASES", "RESOLV_HOST_CONF", "NLSPATH", "OPENSSL_CONF",
		"GIT_SSH", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS", "GIT_EXEC_PATH", "GIT_TEMPLATE_DIR", "GIT_PROXY_COMMAND", "GIT_DIR",
	} {
		if !IsInjector(name) {
			t.Errorf("a glob passes %s on", name)
		}
	}
	for _, name := range []string{"LC_ALL", "GOFLAGS", "GIT_AUTHOR_NAME", "GIT_TERMINAL_PROMPT", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "NODE_ENV", "JAVA_HOME", "TERM", "LANG", "ENVIRONMENT", "EDITORIAL"} {
		if IsInjector(name) {
			t.Errorf("%s is taken for an injector", name)
		}
	}
}

// Values may be secrets: no error may hold one.
func TestComputeErrorsHoldNoValues(t *testing.T) {
	t.Parallel()
	_, _, err := Compute(Input{Definition: map[string]string{"A": "hunter2\x00"}})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}

func FuzzCompute(f *testing.F) {
	f.Add("PATH=/bin\nA=1\nLD_PRELOAD=x", "L*", "A=2")
	f.Add("=\n==\nPATH=::", "[", "")
	f.Add("BASH_FUNC_a%%=() { x; }\nGIT_SSH=1", "*", "GIT_SSH")
	f.Fuzz(func(t *testing.T, caller, pattern, command string) {
		env, _, err := Compute(Input{Caller: strings.Split(caller, "\n"), Passthrough: []string{pattern}, Command: []string{command}})
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, entry := range env {
			name, _, ok := strings.Cut(entry, "=")
			if !ok || name == "" || seen[name] {
				t.Fatalf("malformed or duplicate entry %q", entry)
			}
			seen[name] = true
			asked, _, _ := strings.Cut(command, "=")
			if IsInjector(name) && name != asked {
				t.Fatalf("the pattern %q passed %s on", pattern, name)
			}
		}
	})
}
