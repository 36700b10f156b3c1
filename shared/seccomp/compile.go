package seccomp

import (
	"fmt"
	"math"
	"slices"

	"golang.org/x/net/bpf"
)

// Where struct seccomp_data has what a filter looks at.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16 // six of eight bytes each, the low half first
)

// What a filter returns.
const (
	retAllow = 0x7fff0000
	retErrno = 0x00050000
	// The process, not the thread: one without some of its threads is
	// nothing that a program was written for.
	retKillProcess = 0x80000000
)

// maxInstructions is the kernel's BPF_MAXINSNS.
const maxInstructions = 4096

// compile translates: the architecture first, since the numbers mean
// nothing without it; then the calls whose arguments matter, a block each;
// then the calls that are refused whatever their arguments.
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
		number, ok := a.number(name)
		if !ok {
			return nil, fmt.Errorf("call %q has no number", name)
		}
		if number == absent {
			continue
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
		program = append(program, bpf.JumpIf{Cond: bpf.JumpEqual, Val: number, SkipFalse: uint8(len(block))})
		program = append(program, block...)
	}
	for _, e := range [...]errno{eperm, enosys} {
		var numbers []uint32
		for _, r := range rules {
			if len(r.tests) > 0 || r.deny != e {
				continue
			}
			for _, name := range r.calls {
				number, ok := a.number(name)
				if !ok {
					return nil, fmt.Errorf("call %q has no number", name)
				}
				if number != absent {
					numbers = append(numbers, number)
				}
			}
		}
		if len(numbers) > math.MaxUint8 {
			return nil, fmt.Errorf("too many calls are refused with %v to jump over", e)
		}
		for i, n := range numbers {
			// To the return behind the last of them, which that one skips if it is another call.
			jump := bpf.JumpIf{Cond: bpf.JumpEqual, Val: n, SkipTrue: uint8(len(numbers) - 1 - i)}
			if i == len(numbers)-1 {
				jump.SkipFalse = 1
			}
			program = append(program, jump)
		}
		if len(numbers) > 0 {
			program = append(program, deny(e))
		}
	}
	program = append(program, bpf.RetConstant{Val: retAllow})
	if len(program) > maxInstructions {
		return nil, fmt.Errorf("the filter has %d instructions and the kernel takes %d", len(program), maxInstructions)
	}
	return bpf.Assemble(program)
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

// refuseIf returns if all tests of r hold and runs on otherwise.
func refuseIf(r rule) []bpf.Instruction {
	// From the end, where the distance to it is known.
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
