package cli

import (
	"runtime"
	"runtime/debug"
)

// version is set by the linker: -ldflags "-X mqctl/cli.version=1.2.3".
var version string

// versionItem is what "version" says.
type versionItem struct {
	Version string  `json:"version"`
	Commit  *string `json:"commit"`
	BuiltAt *string `json:"builtAt"`
	Go      string  `json:"go"`
	OS      string  `json:"os"`
	Arch    string  `json:"arch"`
}

// versionOf prefers the stamp of the linker and falls back to what the Go tool
// wrote into the binary.
func versionOf() versionItem {
	v := versionItem{Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		if v.Version == "" {
			v.Version = "unknown"
		}
		return v
	}
	dirty := ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = ptr(s.Value)
		case "vcs.time":
			v.BuiltAt = ptr(s.Value)
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "+changes"
			}
		}
	}
	if v.Version == "" {
		v.Version = info.Main.Version
	}
	if v.Version == "" || v.Version == "(devel)" {
		v.Version = "devel"
		if v.Commit != nil {
			v.Version += "-" + (*v.Commit)[:min(12, len(*v.Commit))]
		}
		v.Version += dirty
	}
	return v
}
