package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/dustin/go-humanize"

	"mqctl/broker"
	"mqctl/store/vfs"
)

// quietStart says that a program reads what a start prints.
func (s *serving) quietStart() bool {
	return s.c.p.format == "json" || s.c.p.format == "jsonl" || s.c.io.Env(readyEnv) != ""
}

// banner says on stderr what was started. With --output json stdout has the
// machine's form and stderr stays quiet.
func (s *serving) banner(it readyItem) {
	if s.quietStart() {
		return
	}
	st := s.broker.Status()
	w := s.c.io.Err
	dot := " - "
	if s.c.p.errStyle.utf8 {
		dot = " · "
	}
	head := []string{"mqctl " + versionOf().Version, fmt.Sprintf("broker %s/%d", it.Broker, it.BrokerID), it.Role, "cluster " + s.cfg.Value("brokerClusterName")}
	fmt.Fprintf(w, "%s\n\n", s.c.p.errStyle.bold(strings.Join(head, dot)))
	row := func(label, value, note string) {
		if note != "" {
			value = fmt.Sprintf("%-24s  %s", value, note)
		}
		fmt.Fprintf(w, "  %-12s %s\n", label, value)
	}
	row("remoting", it.Addr, "advertised "+s.cfg.Value("brokerIP1"))
	if ports := brokerPorts(it.Addr); len(ports) > 1 {
		row("fast port", ports[1], "for sends")
	}
	row("ha", it.HAAddr, haText(st))
	if s.nsAddr != "" {
		row("nameserver", s.nsAddr, "embedded")
	}
	for _, addr := range s.cfg.Namesrvs() {
		row("nameserver", addr, "registered there")
	}
	if it.HTTPAddr != nil {
		row("http", *it.HTTPAddr, "/livez /readyz /startupz")
	}
	row("store", it.StoreDir, diskText(it.StoreDir))
	row("recovery", fmt.Sprintf("%s to %s", humanize.Comma(it.Recovery.MinOffset), humanize.Comma(it.Recovery.MaxOffset)), recoveryText(st))
	row("metadata", fmt.Sprintf("%s, %s, %s", count(st.Topics, "topic"), count(st.Groups, "group"), count(st.Offsets, "offset")), "")
	slaveReads := "off"
	if st.Live.SlaveRead {
		slaveReads = "on"
	}
	row("slave reads", slaveReads, "")
	row("config", configText(s.cfg), "")
	for _, n := range st.Recovery.Notes {
		row("note", n, "")
	}
	fmt.Fprintf(w, "\nready in %s   pid %d\n", readyText(it.StartMillis), it.Pid)
	if ns := it.Namesrv; len(ns) > 0 {
		fmt.Fprintf(w, "next   mqctl -n %s cluster list\n", ns[0])
	}
}

// haText says what the replication port is for, or where the log comes from.
func haText(st broker.Status) string {
	switch {
	case st.Role != broker.Slave:
		return "for slaves"
	case st.Master != "":
		return "follows " + st.Master
	}
	return "waits to hear of its master"
}

func readyText(ms int64) string {
	if ms < 1000 {
		return fmt.Sprintf("%d ms", ms)
	}
	return fmt.Sprintf("%.1f s", float64(ms)/1000)
}

func recoveryText(st broker.Status) string {
	cut := "nothing cut"
	if st.Recovery.CutBytes > 0 {
		cut = humanize.Comma(st.Recovery.CutBytes) + " bytes cut"
	}
	how := "clean stop before"
	switch {
	case st.Recovery.FilesChecked == 0 && st.Recovery.Max == 0:
		how = "new store"
	case !st.Recovery.Clean:
		how = "the last stop was not clean"
	}
	return fmt.Sprintf("%s checked, %s, %s, %d ms", count(st.Recovery.FilesChecked, "file"), cut, how, st.Recovery.Took.Milliseconds())
}

func diskText(dir string) string {
	u, err := vfs.OS{}.Usage(dir)
	if err != nil || u.Total <= 0 {
		return ""
	}
	return fmt.Sprintf("%s free, %.0f %% used", humanize.IBytes(uint64(max(0, u.Avail))), 100*float64(u.Total-u.Free)/float64(u.Total))
}

// configText counts where settings came from.
func configText(cfg *broker.Config) string {
	counts := map[string]int{}
	for _, s := range cfg.Effective() {
		counts[s.Origin.Kind]++
	}
	from := "no file"
	if cfg.File != "" {
		from = cfg.File
	}
	var parts []string
	for _, k := range []struct{ kind, text string }{{"saved", "saved"}, {"file", "set in file"}, {"env", "env"}, {"set", "--set"}, {"flag", "flags"}} {
		if n := counts[k.kind]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, k.text))
		}
	}
	if len(parts) == 0 {
		parts = []string{"all defaults"}
	}
	return from + ", " + strings.Join(parts, ", ")
}

// readyEnv names the inherited descriptor that a detached process tells its
// readiness through. It is set by detach alone.
const readyEnv = "MQCTL_READY_FD"

// tellReady writes the ready line: to the process that detached this one, or
// with --output json to stdout.
func tellReady(c *call, it any) error {
	b, err := marshal(it)
	if err != nil {
		return err
	}
	b = append(b, '\n')
	if c.io.Env(readyEnv) == "3" {
		f := os.NewFile(3, "ready")
		defer f.Close()
		if _, err := f.Write(b); err != nil {
			return fmt.Errorf("telling readiness: %w", err)
		}
		return nil
	}
	if c.p.format == "json" || c.p.format == "jsonl" {
		return writeAll(c.io.Out, b)
	}
	return nil
}

func writeAll(w io.Writer, b []byte) error {
	if _, err := w.Write(b); err != nil && !quiet(err) {
		return fmt.Errorf("writing the ready line: %w", err)
	}
	return nil
}
