//go:build !linux

package kube

import "os/exec"

// dieWithParent does nothing: only Linux ends a child with its parent.
func dieWithParent(*exec.Cmd) {}
