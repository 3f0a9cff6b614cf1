package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"mqctl/cli/admin"
)

// bundleItem is the archive that was written.
type bundleItem struct {
	File    string       `json:"file"`
	Bytes   int64        `json:"bytes" min:"0"`
	Redact  string       `json:"redact" enum:"secrets|strict"`
	Count   int          `json:"count" min:"0"`   // parts that are in it
	Missing int          `json:"missing" min:"0"` // parts that could not be had
	Parts   []bundlePart `json:"parts"`
}

// bundler is one run of debug bundle.
type bundler struct {
	c     *call
	r     *result
	scrub *scrubber
	out   *archiveWriter
	item  *bundleItem
	since time.Time
	man   manifest
	has   map[string]bool // names that are taken
	dead  []localBroker   // of this machine, killed
}

func runDebugBundle(ctx context.Context, c *call) (*result, error) {
	if c.given("store") && (c.given("broker") || c.given("cluster")) {
		return nil, usage("CONTRADICTION", "--store is about a folder of this machine, --broker and --cluster about brokers").because("nothing was read")
	}
	token, err := c.httpToken()
	if err != nil {
		return nil, err
	}
	ms, err := c.bundleSince()
	if err != nil {
		return nil, err
	}
	b := &bundler{c: c, r: &result{}, scrub: newScrubber(c.str("redact") == "strict"), since: time.UnixMilli(ms), has: map[string]bool{}, dead: deadNotes(c.io.Env)}
	b.item = &bundleItem{File: c.str("out"), Redact: c.str("redact"), Parts: []bundlePart{}}
	if b.item.File == "" {
		b.item.File = "mqctl-bundle-" + c.begun.UTC().Format("20060102-150405") + ".tar.gz"
	}
	b.man = manifest{Schema: manifestSchema, CreatedAt: stamp(c.begun), Version: versionOf().Version, Since: stamp(b.since), Redact: b.item.Redact, Brokers: []bundled{}}
	if err := b.learn(token); err != nil {
		return nil, err
	}
	if c.given("store") {
		err = b.store(ctx)
	} else {
		err = b.cluster(ctx, token)
	}
	if err != nil {
		if b.out != nil {
			err = errors.Join(err, b.out.drop())
		}
		return nil, err
	}
	return b.finish()
}

// bundleSince is --since, of which there is always a value.
func (c *call) bundleSince() (int64, error) {
	if d, err := parseDuration(c.str("since")); err == nil && !c.given("since") {
		return c.begun.Add(-d).UnixMilli(), nil
	}
	return c.sinceMillis()
}

// learn notes the secrets that this run knows by itself.
func (b *bundler) learn(token string) error {
	access, secret, err := b.c.credentials()
	if err != nil {
		return err
	}
	for _, s := range []string{access, secret, token} {
		b.scrub.learn(s)
	}
	for _, name := range []string{"MQCTL_ACCESS_KEY", "MQCTL_SECRET_KEY"} {
		b.scrub.learn(b.c.io.Env(name))
	}
	return nil
}

// cluster asks nameservers and brokers. Without any that answers nothing is written.
func (b *bundler) cluster(ctx context.Context, token string) error {
	targets, err := b.targets(ctx)
	if err != nil {
		return err
	}
	brokers := admin.Each(ctx, b.c.client, 0, targets, func(ctx context.Context, t admin.Target) (*brokerParts, error) {
		return b.c.gatherBroker(ctx, t, b.since, token), nil
	})
	for _, res := range brokers {
		if p := res.Value; p != nil {
			b.scrub.learnFrom(p.secrets)
			b.machines(p)
		}
	}
	if ctx.Err() != nil {
		return b.c.explain(&admin.Timeout{Deadline: true})
	}
	if err := b.open(); err != nil {
		return err
	}
	if err := b.client(); err != nil {
		return err
	}
	if err := b.nameservers(ctx); err != nil {
		return err
	}
	for _, res := range brokers {
		if err := b.broker(ctx, res.Value); err != nil {
			return err
		}
	}
	return nil
}

// targets are the brokers to ask: those that a nameserver tells of, and those of
// this user that run here, which are also there when no nameserver is.
func (b *bundler) targets(ctx context.Context) ([]admin.Target, error) {
	c := b.c
	a, err := c.admin()
	if err != nil {
		return nil, err
	}
	var targets []admin.Target
	if s := c.selector(false); admin.IsAddress(s.Broker) {
		targets, err = c.targets(ctx, false)
		if err != nil {
			return nil, err
		}
		targets = c.identify(ctx, targets)
	} else {
		view, verr := a.Cluster(ctx)
		if verr == nil {
			targets, verr = everyReplica(view, s)
		}
		var none *admin.NoNameserver
		switch {
		case verr == nil:
		case errors.As(verr, &none) && len(localBrokers(c)) > 0:
			b.r.failed(asMessage(c.explain(verr)))
		default:
			return nil, c.explain(verr)
		}
	}
	b.r.cluster = clusterOf(targets)
	if b.r.cluster != "" {
		b.man.Cluster = &b.r.cluster
	}
	if c.given("broker") || c.given("cluster") {
		return targets, nil
	}
	return append(targets, b.unregistered(targets)...), nil
}

// unregistered are brokers of this machine that no nameserver told of and that
// have the same nameservers: those that run, and those that were killed.
func (b *bundler) unregistered(known []admin.Target) []admin.Target {
	var out []admin.Target
	for _, l := range append(localBrokers(b.c), b.dead...) {
		same := false
		for _, ns := range l.Namesrv {
			same = same || slices.Contains(b.c.client.Nameservers(), ns)
		}
		for _, t := range append(known, out...) {
			same = same && t.Addr != l.Addr
		}
		if same {
			out = append(out, admin.Target{Broker: l.Broker, ID: l.BrokerID, Addr: l.Addr})
		}
	}
	return out
}

// machines notes the names of machines that strict hides.
func (b *bundler) machines(p *brokerParts) {
	if !b.scrub.strict {
		return
	}
	for _, host := range []string{hostOf(p.Addr), p.secrets["brokerIP1"], p.secrets["brokerIP2"]} {
		if host != "" && host != "localhost" {
			b.scrub.host(host)
		}
	}
}

func (b *bundler) open() error {
	var err error
	if b.out, err = newArchive(b.item.File, b.c.begun); err != nil {
		return fail(ExitFailed, "FILE_NOT_WRITTEN", "%s: %v", b.item.File, err).try("--out FILE")
	}
	return nil
}

// put cleans one part and writes it.
func (b *bundler) put(g gathered) error {
	base := string(b.scrub.literals([]byte(g.name)))
	name := base
	for n := 2; b.has[name]; n++ { // two brokers that say they are the same
		name = fmt.Sprintf("%s-%d", base, n)
	}
	b.has[name] = true
	p := bundlePart{Name: name}
	body, err := b.clean(g)
	switch {
	case g.skipped != "":
		p.Skipped = ptr(string(b.scrub.literals([]byte(g.skipped))))
	case err != nil:
		p.Error = ptr(string(b.scrub.literals([]byte(asMessage(b.c.explain(err)).Text))))
		b.item.Missing++
	default:
		p.Bytes, p.SHA256 = int64(len(body)), sumOf(body)
		if err := b.out.add(name, body); err != nil {
			return fail(ExitFailed, "FILE_NOT_WRITTEN", "%s: %v", b.item.File, err)
		}
		b.item.Count++
	}
	b.item.Parts = append(b.item.Parts, p)
	return nil
}

// clean takes the secrets out.
func (b *bundler) clean(g gathered) ([]byte, error) {
	if g.err != nil || g.skipped != "" {
		return nil, g.err
	}
	if text, ok := g.doc.([]byte); ok {
		g.text, g.doc = text, nil
	}
	switch {
	case g.doc != nil:
		return b.scrub.document(g.doc)
	case g.binary:
		return g.text, nil
	case !g.lines:
		return b.scrub.text(g.text), nil
	}
	var out bytes.Buffer
	for line := range bytes.Lines(g.text) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			out.Write(b.scrub.line(line))
			out.WriteByte('\n')
		}
	}
	return out.Bytes(), nil
}

// client are the parts about this program: version, settings, what it changed lately.
func (b *bundler) client() error {
	c := b.c
	settings := &result{}
	shown := gathered{name: "client/config.json"}
	if shown.err = c.clientShow(settings); shown.err == nil {
		shown.doc = settings.items
	}
	audit := gathered{name: "client/audit.jsonl", lines: true}
	if path := c.auditPath(); path == "" {
		audit.skipped = "the audit file is off"
	} else if text, err := auditTail(path, b.since); errors.Is(err, os.ErrNotExist) {
		audit.skipped = "nothing was changed from here"
	} else {
		audit.text, audit.err = text, err
	}
	for _, g := range []gathered{{name: "client/version.json", doc: versionOf()}, shown, audit} {
		if err := b.put(g); err != nil {
			return err
		}
	}
	return nil
}

// mostAudit is how many lines of the audit file are taken: the newest.
const mostAudit = 1000

// auditTail are the newest lines of the audit file.
func auditTail(path string, since time.Time) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read from
	var lines [][]byte
	in := bufio.NewReaderSize(f, 64<<10)
	for {
		line, err := readLine(in, maxLogLine)
		var e struct{ At time.Time }
		if json.Unmarshal(line, &e) == nil && !e.At.Before(since) {
			lines = append(lines, bytes.Clone(line))
			if len(lines) > 2*mostAudit {
				lines = append(lines[:0], lines[len(lines)-mostAudit:]...)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	lines = lines[max(0, len(lines)-mostAudit):]
	return bytes.Join(lines, []byte("\n")), nil
}

func (b *bundler) nameservers(ctx context.Context) error {
	addrs := b.c.client.Nameservers()
	if b.scrub.strict {
		for _, a := range addrs {
			b.scrub.host(hostOf(a))
		}
	}
	for i, addr := range addrs {
		parts := b.c.gatherNameserver(ctx, addr, fmt.Sprintf("nameservers/%d", i+1))
		if parts[0].err != nil {
			m := asMessage(b.c.explain(parts[0].err))
			m.Addr = addr
			b.r.failed(m)
		} else {
			b.r.done++
		}
		for _, g := range parts {
			if err := b.put(g); err != nil {
				return err
			}
		}
	}
	return nil
}

// broker writes the parts of one broker, and looks at its store where it lies on
// this machine.
func (b *bundler) broker(ctx context.Context, p *brokerParts) error {
	if p.Answered {
		b.r.done++
	}
	t := admin.Target{Broker: p.Broker, ID: p.BrokerID, Addr: p.Addr}
	for _, g := range p.parts {
		if g.err != nil {
			b.r.failed(b.c.at(g.err, t))
		}
		if err := b.put(g); err != nil {
			return err
		}
	}
	if dir := b.storeHere(t); dir != "" {
		if err := b.storeParts(ctx, dir, p.Folder+"/store", false); err != nil {
			return err
		}
	}
	b.man.Brokers = append(b.man.Brokers, p.bundled)
	return nil
}

// storeHere is the folder of a broker of this machine, "" for others.
func (b *bundler) storeHere(t admin.Target) string {
	for _, l := range append(localBrokers(b.c), b.dead...) {
		if l.Addr == t.Addr && l.Broker == t.Broker {
			return l.StoreDir
		}
	}
	return ""
}

// store is --store: a folder, without any network.
func (b *bundler) store(ctx context.Context) error {
	if _, err := os.Stat(b.c.str("store")); err != nil {
		return notStore(b.c.str("store"), err)
	}
	if err := b.open(); err != nil {
		return err
	}
	if err := b.client(); err != nil {
		return err
	}
	b.r.done++
	return b.storeParts(ctx, b.c.str("store"), "store", true)
}

// storeParts looks at a folder. Only where it is what the bundle is about is its
// absence an error.
func (b *bundler) storeParts(ctx context.Context, dir, folder string, asked bool) error {
	look, configs, err := lookAtStore(ctx, dir)
	if err != nil && (asked && (isNoStore(err) || ctx.Err() != nil)) {
		return err
	}
	g := gathered{name: folder + "/verify.json", err: err}
	if err == nil {
		g.doc = look
	} else {
		b.r.failed(asMessage(err))
	}
	if perr := b.put(g); perr != nil || err != nil || !asked {
		return perr // of a broker that answers, the tables are there already
	}
	for _, name := range sortedKeys(configs) {
		if err := b.put(gathered{name: folder + "/config/" + fileWord(name), doc: json.RawMessage(configs[name])}); err != nil {
			return err
		}
	}
	return nil
}

// finish writes the manifest and closes the archive.
func (b *bundler) finish() (*result, error) {
	b.man.Parts = b.item.Parts
	text, err := b.scrub.document(b.man)
	if err == nil {
		err = b.out.add(manifestName, text)
	}
	if err != nil {
		return nil, fail(ExitFailed, "FILE_NOT_WRITTEN", "%s: %v", b.item.File, errors.Join(err, b.out.drop()))
	}
	if b.item.Bytes, err = b.out.finish(); err != nil {
		return nil, fail(ExitFailed, "FILE_NOT_WRITTEN", "%s: %v", b.item.File, err)
	}
	b.r.add(b.item)
	return b.r, nil
}

func footBundle(p *printer, r *result) {
	for _, item := range r.items {
		it := item.(*bundleItem)
		for _, part := range it.Parts {
			switch {
			case part.Error != nil:
				p.printf("missing   %s: %s\n", part.Name, oneLine(*part.Error))
			case part.Skipped != nil:
				p.printf("left out  %s: %s\n", part.Name, oneLine(*part.Skipped))
			}
		}
		p.printf("\nlook into it: mqctl debug analyse %s\n", shellWord(it.File))
	}
}
