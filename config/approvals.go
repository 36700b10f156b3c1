package config

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"

	"github.com/sbxhost/sbxhost/policy"
)

// approvals decodes the approvals block.
func (d *decoder) approvals(f *File, body hcl.Body) {
	content := d.content(body, &approvalsSchema)
	out := &f.options.Approvals
	for _, name := range approvalsSchema.attrs {
		attr := content.Attributes[name]
		if attr == nil {
			continue
		}
		it, ok := d.item(attr)
		if !ok {
			continue
		}
		it.name = "approvals." + name
		switch name {
		case "mode":
			if text, ok := d.oneOf(it, "ask", "always", "deny"); ok {
				out.Mode, _ = policy.ParseMode(text)
				out.ModeOrigin = fmt.Sprintf("approvals.mode (%s:%d)", it.at.Filename, it.at.Start.Line)
			}
		case "session_ttl":
			out.SessionTTL, _ = d.duration(it)
		case "allow_bypass":
			out.AllowBypass, _ = d.bool(it)
		}
	}
}

// audit decodes the audit block.
func (d *decoder) audit(f *File, block *hcl.Block) {
	content := d.content(block.Body, &auditSchema)
	out := &f.options.Audit
	for _, name := range auditSchema.attrs {
		attr := content.Attributes[name]
		if attr == nil {
			continue
		}
		it, ok := d.item(attr)
		if !ok {
			continue
		}
		it.name = "audit." + name
		switch name {
		case "path":
			out.Path, _ = d.hostPath(it)
		case "max_size":
			if out.MaxSize, ok = d.size(it); ok && (out.MaxSize < 4<<10 || out.MaxSize > 1<<40) {
				d.invalid(it, "must be from 4KiB to 1TiB")
			}
		case "keep":
			if out.Keep, ok = d.count(it); ok && (out.Keep < 1 || out.Keep > 1000) {
				d.invalid(it, "must be from 1 to 1000 files")
			}
		case "on_error":
			text, _ := d.oneOf(it, "stop", "continue")
			out.Continue = text == "continue"
		}
	}
	if content.Attributes["path"] == nil {
		d.report(block.DefRange, "Missing attribute", "An audit block needs path, the file to write to.")
	}
}
