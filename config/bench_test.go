package config

import "testing"

func BenchmarkParseSample(b *testing.B) {
	src, input := Sample(), testInput()
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		if _, diags := Parse("/x/config.hcl", src, input); diags.HasErrors() {
			b.Fatal(diags)
		}
	}
}

func BenchmarkParseBuiltin(b *testing.B) {
	for b.Loop() {
		if _, diags := Load("", EvalInput{}); diags.HasErrors() {
			b.Fatal(diags)
		}
	}
}
