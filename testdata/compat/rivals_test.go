//go:build !java

package compat

import "testing"

// rivals are other brokers to measure beside ours: none without the java tag.
func rivals(*testing.B, []string) []loadTarget { return nil }

func rivalPairs(*testing.B, bool) []loadPair { return nil }

func mqadminCommands(*testing.B, string) []namedCommand { return nil }
