package main

import (
	"fmt"
	"strings"
)

// maxDiffCells bounds the table of a comparison: beyond it, what lies between
// the common beginning and end is shown as replaced.
const maxDiffCells = 4 << 20

// diffContext is how many common lines surround a difference.
const diffContext = 3

// diffLine is one line of a comparison: ' ', '-' or '+', and the text.
type diffLine struct {
	op   byte
	text string
}

// unifiedDiff shows how before became after, as diff -u does, fit for a
// terminal. It is "" where they are the same.
func unifiedDiff(before, after string) string {
	lines := compareLines(splitLines(before), splitLines(after))
	var b strings.Builder
	oldLine, newLine := 1, 1
	for i := 0; i < len(lines); {
		if lines[i].op == ' ' {
			oldLine, newLine, i = oldLine+1, newLine+1, i+1
			continue
		}
		start := max(0, i-diffContext)
		end, quiet := i, 0
		for j := i; j < len(lines) && quiet <= 2*diffContext; j++ {
			if lines[j].op == ' ' {
				quiet++
			} else {
				quiet, end = 0, j+1
			}
		}
		end = min(len(lines), end+diffContext)
		oldLine, newLine = oldLine-(i-start), newLine-(i-start)
		oldCount, newCount := 0, 0
		for _, l := range lines[start:end] {
			if l.op != '+' {
				oldCount++
			}
			if l.op != '-' {
				newCount++
			}
		}
		fmt.Fprintf(&b, "@@ -%s +%s @@\n", hunk(oldLine, oldCount), hunk(newLine, newCount))
		for _, l := range lines[start:end] {
			text, newline := strings.CutSuffix(l.text, "\n")
			b.WriteString(string(l.op) + printable(strings.ReplaceAll(text, "\r", "\ufffd")) + "\n")
			if !newline {
				b.WriteString("\\ No newline at end of file\n")
			}
		}
		oldLine, newLine, i = oldLine+oldCount, newLine+newCount, end
	}
	return b.String()
}

func hunk(line, count int) string {
	if count == 0 {
		line--
	}
	if count == 1 {
		return fmt.Sprint(line)
	}
	return fmt.Sprintf("%d,%d", line, count)
}

func splitLines(s string) []string {
	if s == "" {
		return nil
	}
	lines := strings.SplitAfter(s, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// compareLines finds a longest common subsequence.
func compareLines(a, b []string) []diffLine {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var out []diffLine
	for _, line := range a[:head] {
		out = append(out, diffLine{' ', line})
	}
	out = append(out, compareMiddle(a[head:len(a)-tail], b[head:len(b)-tail])...)
	for _, line := range a[len(a)-tail:] {
		out = append(out, diffLine{' ', line})
	}
	return out
}

func compareMiddle(a, b []string) []diffLine {
	var out []diffLine
	i, j := 0, 0
	if (len(a)+1)*(len(b)+1) <= maxDiffCells {
		// common[i][j] is the length of what a[i:] and b[j:] have in common.
		width := len(b) + 1
		common := make([]int32, (len(a)+1)*width)
		for i := len(a) - 1; i >= 0; i-- {
			for j := len(b) - 1; j >= 0; j-- {
				if a[i] == b[j] {
					common[i*width+j] = common[(i+1)*width+j+1] + 1
				} else {
					common[i*width+j] = max(common[(i+1)*width+j], common[i*width+j+1])
				}
			}
		}
		for i < len(a) && j < len(b) {
			switch {
			case a[i] == b[j]:
				out = append(out, diffLine{' ', a[i]})
				i, j = i+1, j+1
			case common[(i+1)*width+j] >= common[i*width+j+1]:
				out = append(out, diffLine{'-', a[i]})
				i++
			default:
				out = append(out, diffLine{'+', b[j]})
				j++
			}
		}
	}
	for ; i < len(a); i++ {
		out = append(out, diffLine{'-', a[i]})
	}
	for ; j < len(b); j++ {
		out = append(out, diffLine{'+', b[j]})
	}
	return out
}
