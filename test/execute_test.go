package test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/internal/paths"
)

// executor is the one function that prepares to execute a program of the host, which was found by the
// one checked search: see package hostpath.
const executor = "internal/hostpath/execute.go Command"

// executes are the functions, by file or directory, that execute programs without it.
var executes = map[string]string{
	"internal/dial/launch.go Launch":                               "starts an engine's program by the command that internal/launch has from hostpath",
	"internal/launch/pin_linux.go executePinned":                   "executes by descriptor the program that hostpath has checked and whose checksum was verified",
	"internal/launch/pin_other.go executePinned":                   "executes a private copy of such a program",
	"cmd/sbx/main.go main":                                         "becomes the sbxhost beside it, which hostpath has checked",
	"shared/cmdengine/forker.go startProcess":                      "starts a launcher, which its engine has checked, or the init",
	"plugins/bwrap/engine_linux.go launch":                         "names the launcher that locate has checked, for cmdengine",
	"plugins/seatbelt/launch.go launch":                            "names sandbox-exec by its fixed path, for cmdengine",
	"plugins/landlock/engine_linux.go launch":                      "names the init, for cmdengine",
	"plugins/native/engine_linux.go launch":                        "is for cmdengine, and names no program",
	"plugins/docker/box_linux.go launch":                           "is for cmdengine, and names no program",
	"plugins/noop/noop.go launch":                                  "names the command itself: this engine isolates nothing",
	"internal/engine/holder/start_linux.go startProcess":           "executes this very program again, as a session's holder",
	"internal/engine/holder/server_linux.go fork":                  "executes the init, by the descriptor of this very program",
	"internal/engine/sandboxinit/capabilities_linux.go dropByExec": "is inside the sandbox, and executes this very program again",
	"internal/engine/sandboxinit/fork_linux.go clone":              "is inside the sandbox, and executes the command",
	"internal/engine/sandboxinit/fork_linux.go startersNOFILE":     "executes nothing: the call fails, and restores a limit by that",
	"internal/engine/sandboxinit/tracer_linux.go beginTraced":      "is inside the sandbox, and executes this very program again",
	"shared/enginetest":                                            "the kit for engines' authors: what it starts outside is itself, /bin/sh and /bin/ps",
	"docs/examples":                                                "what the documents quote: engines that name their launchers",
	"examples":                                                     "what others write",
	"test":                                                         "runs in tests and benchmarks alone",
}

// executing are the names by which Go code executes a program, by package.
var executing = map[string][]string{
	"os/exec":               {"Command", "CommandContext", "LookPath", "Cmd"},
	"os":                    {"StartProcess"},
	"syscall":               {"Exec", "ForkExec", "StartProcess", "SYS_EXECVE", "SYS_EXECVEAT"},
	"golang.org/x/sys/unix": {"Exec", "SYS_EXECVE", "SYS_EXECVEAT"},
	"github.com/creack/pty": {"Start", "StartWithSize", "StartWithAttrs"},
}

// notHost are directories that are no part of what users run: tools builds releases and
// generates code, internal/testing serves tests, on the machines of those who work on this.
var notHost = []string{"tools", "internal/testing"}

// TestOneFunctionExecutes finds every call by which this project executes a program, in whichever module:
// a command can put a git or a gh into a directory of its user's PATH, so that no program of the
// host is found or started but by the one function that knows where commands can write.
func TestOneFunctionExecutes(t *testing.T) {
	t.Parallel()
	modules, files := map[string]bool{}, 0
	used := map[string]bool{}
	err := filepath.WalkDir("..", func(p string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(p, "../")
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if p != ".." && strings.HasPrefix(d.Name(), ".") || slices.Contains(notHost, name) || name == "bin" || name == "dist" {
				return filepath.SkipDir
			}
			return nil
		case d.Name() == "go.mod":
			modules[path.Dir(name)] = true
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		files++
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		found, err := executions(name, text)
		for _, at := range found {
			place := name + " " + at.function
			if place == executor {
				used[executor] = true
				continue
			}
			reason := ""
			for exception := range executes {
				if exception == place || paths.Inside(exception, name) {
					used[exception], reason = true, exception
				}
			}
			if reason == "" {
				t.Errorf("%s: %s uses %s: find and start programs of the host by package hostpath, or say in executes why not", at.position, at.function, at.name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for exception := range executes {
		if !used[exception] {
			t.Errorf("%s executes nothing: take it out of executes", exception)
		}
	}
	work, err := os.ReadFile("../go.work")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(work)) {
		if dir, ok := strings.CutPrefix(strings.TrimSpace(line), "./"); ok && !modules[dir] {
			t.Errorf("the module %s was not looked through", dir)
		}
	}
	if files < 500 || !used[executor] {
		t.Errorf("%d files were read, and of %s that is found: %v", files, executor, used[executor])
	}
}

func TestExecutionsAreFound(t *testing.T) {
	t.Parallel()
	const text = `package p
import (
	"os"
	run "os/exec"
	sys "syscall"
	"golang.org/x/sys/unix"
)
var later = run.Command
var pointer *run.Cmd
type kept struct { cmd run.Cmd }
func call() { run.CommandContext(nil, "git") }
func look() { run.LookPath("git") }
func literal() { _ = &run.Cmd{Path: "git"} }
func empty() { _ = new(run.Cmd) }
func lead(cmd *run.Cmd) { cmd.Path = "git" }
func start() { os.StartProcess("git", nil, nil) }
func become() { sys.Exec("git", nil, nil); sys.ForkExec("git", nil, nil); unix.Exec("git", nil, nil) }
func raw() { sys.RawSyscall(sys.SYS_EXECVE, 0, 0, 0) }
func (k *kept) method() func() { return func() { run.Command("git") } }
func harmless(cmd *run.Cmd) (*run.Cmd, error) { _ = cmd.Path; _ = run.ErrNotFound; return cmd, cmd.Run() }
`
	found, err := executions("p.go", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, at := range found {
		got = append(got, at.function+" "+at.name)
	}
	want := []string{" os/exec.Command", " os/exec.Cmd", "call os/exec.CommandContext", "look os/exec.LookPath", "literal os/exec.Cmd", "empty os/exec.Cmd", "lead Path of a command",
		"start os.StartProcess", "become syscall.Exec", "become syscall.ForkExec", "become golang.org/x/sys/unix.Exec", "raw syscall.SYS_EXECVE", "method os/exec.Command"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if _, err := executions("p.go", []byte("package p\nimport . \"os/exec\"\n")); err == nil {
		t.Error("names without their package are not looked at")
	}
}

// executions finds the uses of executing in a file: of the type Cmd all but pointers to it, and a Path that is
// given to a value in a file that knows that type.
func executions(name string, text []byte) (list []processRead, err error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	imports, byName := map[string]string{}, map[string]bool{}
	for _, spec := range file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		as := path.Base(p)
		if spec.Name != nil {
			as = spec.Name.Name
		}
		if _, ok := executing[p]; ok && as == "." {
			return nil, fmt.Errorf("%s imports %s without its name", name, p)
		}
		imports[as], byName[p] = p, true
	}
	for _, decl := range file.Decls {
		function := ""
		if f, ok := decl.(*ast.FuncDecl); ok {
			function = f.Name.Name
		}
		add := func(what string, at token.Pos) {
			list = append(list, processRead{what, function, fset.Position(at)})
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.StarExpr:
				if sel, ok := n.X.(*ast.SelectorExpr); ok && sel.Sel.Name == "Cmd" {
					return false
				}
			case *ast.AssignStmt:
				for _, to := range n.Lhs {
					if sel, ok := to.(*ast.SelectorExpr); ok && sel.Sel.Name == "Path" && byName["os/exec"] {
						add("Path of a command", sel.Pos())
					}
				}
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && slices.Contains(executing[imports[x.Name]], n.Sel.Name) {
					add(imports[x.Name]+"."+n.Sel.Name, n.Pos())
				}
			}
			return true
		})
	}
	return list, nil
}
