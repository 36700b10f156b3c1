package seccomp

import (
	"fmt"
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

// maxInstructions is the kernel's BPF_MAXINSNS.
const maxInstructions = 4096

// compile translates rules. The program checks the architecture first, because numbers mean nothing
// without it. Then come the calls whose arguments matter, with a block for each, and then the calls
// that are refused whatever their arguments are.
func compile(a arch, rules []rule) ([]bpf.RawInstruction, error) {
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: a.audit, SkipTrue: 1},
		bpf.RetConstant{Val: retKillProcess},
		bpf.LoadAbsolute{Off: offNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: newest, SkipFalse: 1},
		deny(enosys),
	}
	for _, name := range conditional(rules) {
		block, err := blockOf(a, rules, name)
		if err != nil {
			return nil, err
		}
		program = append(program, block...)
	}
	for _, e := range [...]errno{eperm, enosys} {
		list, err := refuseAll(a, rules, e)
		if err != nil {
			return nil, err
		}
		program = append(program, list...)
	}
	program = append(program, bpf.RetConstant{Val: retAllow})
	if len(program) > maxInstructions {
		return nil, fmt.Errorf("the filter has %d instructions and the kernel takes %d", len(program), maxInstructions)
	}
	return bpf.Assemble(program)
}

// compileTracing translates the calls at which a traced command is stopped. It leaves calls of
// another architecture to the other filter.
func compileTracing(a arch) ([]bpf.RawInstruction, error) {
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: a.audit, SkipTrue: 1},
		bpf.RetConstant{Val: retAllow},
		bpf.LoadAbsolute{Off: offNumber, Size: 4},
	}
	for i := range traced.Calls() {
		number, err := a.numberOf(traced.Calls()[i].Name)
		if err != nil {
			return nil, err
		}
		if number != absent {
			program = append(program, bpf.JumpIf{Cond: bpf.JumpEqual, Val: number, SkipFalse: 1}, bpf.RetConstant{Val: retTrace | uint32(traced.Mark(i))})
		}
	}
	return bpf.Assemble(append(program, bpf.RetConstant{Val: retAllow}))
}

// blockOf makes the block for one call whose arguments matter.
func blockOf(a arch, rules []rule, name string) ([]bpf.Instruction, error) {
	number, err := a.numberOf(name)
	if err != nil || number == absent {
		return nil, err
	}
	var block []bpf.Instruction
	for _, r := range rules {
		if slices.Contains(r.calls, name) {
			block = append(block, refuseIf(r)...)
		}
	}
	block = append(block, bpf.RetConstant{Val: retAllow})
	if len(block) > math.MaxUint8 {
		return nil, fmt.Errorf("the rules for %q are too long to jump over", name)
	}
	return append([]bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpEqual, Val: number, SkipFalse: uint8(len(block))}}, block...), nil
}

// refuseAll refuses with e the calls that are refused whatever their arguments.
func refuseAll(a arch, rules []rule, e errno) ([]bpf.Instruction, error) {
	var numbers []uint32
	for _, r := range rules {
		if len(r.tests) > 0 || r.deny != e {
			continue
		}
		for _, name := range r.calls {
			number, err := a.numberOf(name)
			if err != nil {
				return nil, err
			}
			if number != absent {
				numbers = append(numbers, number)
			}
		}
	}
	if len(numbers) == 0 {
		return nil, nil
	}
	if len(numbers) > math.MaxUint8 {
		return nil, fmt.Errorf("too many calls are refused with %v to jump over", e)
	}
	var list []bpf.Instruction
	for i, n := range numbers {
		// Each comparison jumps to the return after the last one. The last one skips this return if
		// it is another call.
		list = append(list, bpf.JumpIf{Cond: bpf.JumpEqual, Val: n, SkipTrue: uint8(len(numbers) - 1 - i)})
	}
	list[len(list)-1] = bpf.JumpIf{Cond: bpf.JumpEqual, Val: numbers[len(numbers)-1], SkipFalse: 1}
	return append(list, deny(e)), nil
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
		past := uint8(len(code)) // a rule has a few tests, of three instructions each
		switch t.op {
		case anyBit:
			head = append(head, bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: t.mask, SkipFalse: past})
		case equal, notEqual:
			if t.mask != all {
				head = append(head, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: t.mask})
			}
			jump := bpf.JumpIf{Cond: bpf.JumpEqual, Val: t.value, SkipFalse: past}
			if t.op == notEqual {
				jump = bpf.JumpIf{Cond: bpf.JumpEqual, Val: t.value, SkipTrue: past}
			}
			head = append(head, jump)
		}
		code = append(head, code...)
	}
	return code
}

func deny(e errno) bpf.Instruction { return bpf.RetConstant{Val: retErrno | uint32(e)} }
