// Package doctor tells what this machine allows, and what would help.
package doctor
