package source

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// Format formats src in the usual style of HCL. It changes only white space. It returns a file that
// is not HCL unchanged, with errors.
func Format(filename string, src []byte) ([]byte, hcl.Diagnostics) {
	if _, diags := Parse(filename, src); diags.HasErrors() {
		return src, diags
	}
	if len(src) > 0 && src[len(src)-1] != '\n' {
		src = append(slices.Clip(src), '\n')
	}
	return hclwrite.Format(src), nil
}
