package seccomp

import (
	"math"
	"slices"

	"golang.org/x/net/bpf"

	"github.com/sbxhost/sbxhost/internal/engine/traced"
)

// Offsets in struct seccomp_data of what a filter reads.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16 // six of eight bytes each, the low half first
)

// The results of a filter.
const (
	retAllow = 0x7fff0000
	retErrno = 0x00050000
	retTrace = 0x7ff00000
	// It kills the process, not only the thread: no program is written to go on without some of its
	// threads.
	retKillProcess = 0x80000000
)

// compile translates rules. The program checks the architecture first, because numbers mean nothing
// without it. Then come the calls whose arguments matter, with a block for each, and then the calls
// that are refused whatever their arguments are.
func compile(a arch, rules []rule) ([]bpf.RawInstruction, error) {
	program := append(a.begin(retKillProcess), bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: newest, SkipFalse: 1}, deny(enosys))
	for _, name := range conditional(rules) {
		program = append(program, blockOf(a, rules, name)...)
	}
	for _, r := range rules {
		for _, name := range r.calls {
			if len(r.tests) == 0 {
				program = append(program, a.at(name, deny(r.deny))...)
			}
		}
	}
	return bpf.Assemble(append(program, bpf.RetConstant{Val: retAllow}))
}

// compileTracing translates the calls at which a traced command is stopped. It leaves calls of
// another architecture to the other filter.
func compileTracing(a arch) ([]bpf.RawInstruction, error) {
	program := a.begin(retAllow)
	for i, call := range traced.Calls() {
		program = append(program, a.at(call.Name, bpf.RetConstant{Val: retTrace | uint32(traced.Mark(i))})...)
	}
	return bpf.Assemble(append(program, bpf.RetConstant{Val: retAllow}))
}

// begin returns foreign for a call of another architecture, and loads the number of any other.
func (a arch) begin(foreign uint32) []bpf.Instruction {
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: a.audit, SkipTrue: 1},
		bpf.RetConstant{Val: foreign},
		bpf.LoadAbsolute{Off: offNumber, Size: 4},
	}
}

// over is the distance of a jump. The rules are short enough, and a jump to elsewhere must not become
// a filter.
func over(instructions int) uint8 {
	if instructions > math.MaxUint8 {
		panic("seccomp: the rules are too long to jump over")
	}
	return uint8(instructions)
}

// at executes a block for one call, if the architecture has it.
func (a arch) at(name string, block ...bpf.Instruction) []bpf.Instruction {
	number := a.numberOf(name)
	if number == absent {
		return nil
	}
	return append([]bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpEqual, Val: number, SkipFalse: over(len(block))}}, block...)
}

// blockOf makes the block for one call whose arguments matter.
func blockOf(a arch, rules []rule, name string) []bpf.Instruction {
	var block []bpf.Instruction
	for _, r := range rules {
		if slices.Contains(r.calls, name) {
			block = append(block, refuseIf(r)...)
		}
	}
	return a.at(name, append(block, bpf.RetConstant{Val: retAllow})...)
}

// conditional lists the calls that some rule refuses for some arguments alone.
func conditional(rules []rule) []string {
	var names []string
	for _, r := range rules {
		for _, name := range r.calls {
			if len(r.tests) > 0 && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// refuseIf makes instructions that return if all tests of r hold, and continue otherwise.
func refuseIf(r rule) []bpf.Instruction {
	// It is built from the end, so that the distance to the end is known.
	code := []bpf.Instruction{deny(r.deny)}
	for _, t := range slices.Backward(r.tests) {
		head := []bpf.Instruction{bpf.LoadAbsolute{Off: offArgs + 8*uint32(t.arg), Size: 4}}
		jump := bpf.JumpIf{Cond: bpf.JumpEqual, Val: t.value, SkipFalse: over(len(code))}
		if t.mask != all {
			head = append(head, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: t.mask})
		}
		if t.op == notEqual {
			jump.SkipTrue, jump.SkipFalse = jump.SkipFalse, 0
		}
		code = append(append(head, jump), code...)
	}
	return code
}

func deny(e errno) bpf.Instruction { return bpf.RetConstant{Val: retErrno | uint32(e)} }
