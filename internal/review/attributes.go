package review

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxAttributes bounds the attributes, or list entries, that a change names.
const maxAttributes = 16

// attributeDiff describes the differences of extended attributes, "" if there are none.
func attributeDiff(now, before map[string]string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if was, ok := before[name]; ok && was == now[name] {
			continue
		}
		if entries := aclEntries(now[name]); strings.HasPrefix(name, "system.") && entries != "" {
			list = append(list, attributeName(name)+" "+entries)
		} else {
			list = append(list, attributeName(name)+"="+quoteUpTo(64, now[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, ok := now[name]; !ok {
			list = append(list, "without "+attributeName(name))
		}
	}
	return upTo(maxAttributes, list, ", ")
}

func attributeName(name string) string {
	switch name {
	case "system.posix_acl_access":
		return "ACL"
	case "system.posix_acl_default":
		return "default ACL"
	}
	return "attribute " + quoteUpTo(100, name)
}

// quoteUpTo quotes the first characters of a text. A hash stands for the rest, also in the digest.
func quoteUpTo(n int, text string) string {
	first := fmt.Sprintf("%.*s", n, text)
	if first == text {
		return fmt.Sprintf("%+q", text)
	}
	return fmt.Sprintf("%+q... (%d bytes, sha256 %x)", first, len(text), sha256.Sum256([]byte(text)))
}

// aclEntries writes an access control list in setfacl's form, "" if it is not one. The kernel's
// form is the version 2, in 4 bytes, and for each entry its kind, rights and user or group, in 2, 2
// and 4 bytes.
func aclEntries(list string) string {
	b := []byte(list)
	if len(b) < 4 || len(b)%8 != 4 || binary.LittleEndian.Uint32(b) != 2 {
		return ""
	}
	var entries []string
	for b = b[4:]; len(b) > 0; b = b[8:] {
		kind, ok := map[uint16]string{1: "user:", 2: "user:%d", 4: "group:", 8: "group:%d", 16: "mask:", 32: "other:"}[binary.LittleEndian.Uint16(b)]
		if !ok {
			return ""
		}
		if strings.HasSuffix(kind, "%d") {
			kind = fmt.Sprintf(kind, binary.LittleEndian.Uint32(b[4:]))
		}
		rights := []byte("rwx")
		for i, bit := range [...]byte{4, 2, 1} {
			if b[2]&bit == 0 {
				rights[i] = '-'
			}
		}
		entries = append(entries, kind+":"+string(rights))
	}
	return upTo(maxAttributes, entries, ",")
}

// upTo joins the first entries of a list, and counts and hashes the rest.
func upTo(n int, list []string, between string) string {
	if more := len(list) - n; more > 0 {
		list = append(slices.Clone(list[:n]), fmt.Sprintf("and %d more, sha256 %x", more, sha256.Sum256([]byte(strings.Join(list[n:], between)))))
	}
	return strings.Join(list, between)
}
