// Package doctor reports what this machine allows, and how to fix the rest.
package doctor
