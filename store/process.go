package store

// This file alone asks the operating system past vfs: for the process id and
// for the memory of machine and container. It reads no data of the store.

import (
	"os"
	"strconv"
	"strings"
)

func processID() int { return os.Getpid() }

// fallbackMemory is what Java assumes where the system does not say (24 GiB).
const fallbackMemory = 24 << 30

// machineMemory is the memory in bytes for the in-memory rule: of the host, or
// the limit of the container if that is smaller (cgroup v2 or v1, of this group
// or one above it).
func machineMemory() int64 {
	memory := int64(fallbackMemory)
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		if n, ok := memTotal(string(text)); ok {
			memory = n
		}
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return memory
	}
	for _, file := range limitFiles(string(groups)) {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if n, ok := parseLimit(string(text)); ok && n < memory {
			memory = n
		}
	}
	return memory
}

// memTotal reads MemTotal of /proc/meminfo, which is in KiB.
func memTotal(meminfo string) (int64, bool) {
	for line := range strings.Lines(meminfo) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return n << 10, err == nil && n > 0
		}
	}
	return 0, false
}

// limitFiles lists where the memory limits of the groups in /proc/self/cgroup
// stand, from the root down. Inside of a container its own group is the root.
func limitFiles(cgroup string) []string {
	var files []string
	add := func(root, path, name string) {
		files = append(files, root+"/"+name)
		dir := root
		for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
			if part != "" && part != ".." {
				dir += "/" + part
				files = append(files, dir+"/"+name)
			}
		}
	}
	for line := range strings.Lines(cgroup) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(parts) < 3:
		case parts[0] == "0" && parts[1] == "":
			add("/sys/fs/cgroup", parts[2], "memory.max")
		case strings.Contains(","+parts[1]+",", ",memory,"):
			add("/sys/fs/cgroup/memory", parts[2], "memory.limit_in_bytes")
		}
	}
	return files
}

// parseLimit reads a limit; "max" is none, and so are the huge numbers of v1.
func parseLimit(text string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return n, err == nil && n > 0 && n < 1<<60
}
