package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"mqctl/broker/remoting"
	"mqctl/cli/admin"
)

// explain turns an error of the client into a Message with its exit code.
func (c *call) explain(err error) error {
	var m *Message
	if err == nil || errors.As(err, &m) {
		return err
	}
	var none *admin.NoNameserver
	var gone *admin.Unreachable
	var late *admin.Timeout
	var missing *admin.NotFound
	var offline *admin.NotOnline
	var refused *admin.Refused
	var bad *admin.BadAnswer
	var target *admin.TargetMissing
	var addr *admin.BadAddress
	var value *admin.BadValue
	switch {
	case errors.As(err, &none):
		m = c.noNameserver(none)
	case errors.As(err, &missing):
		m = c.notFound(missing)
	case errors.As(err, &offline):
		m = fail(ExitNotFound, "NOT_ONLINE", "group %q has no client online", offline.Group)
	case errors.As(err, &target):
		m = c.targetMissing(target)
	case errors.As(err, &addr):
		return badAddress(err, "broker")
	case errors.As(err, &value):
		m = usage("BAD_VALUE", "%v", value)
	case errors.As(err, &gone):
		m = unreachable(gone)
	case errors.As(err, &late):
		m = timedOut(late)
	case errors.As(err, &refused):
		m = refusal(refused)
	case errors.As(err, &bad):
		m = fail(ExitUnreachable, "BAD_PROTOCOL", "%v", bad)
		m.Addr = bad.Addr
	case errors.Is(err, context.DeadlineExceeded):
		m = fail(ExitTimeout, "DEADLINE", "the deadline is over")
	case errors.Is(err, context.Canceled):
		m = fail(ExitInterrupted, "INTERRUPTED", "interrupted")
	default:
		m = fail(ExitFailed, "FAILED", "%v", err)
	}
	m.cause = err
	return m
}

// at is explain for one target out of several.
func (c *call) at(err error, t admin.Target) *Message {
	m := *asMessage(c.explain(err))
	m.Target = t.String()
	if m.Code == "NO_MASTER" && t.Broker != "" {
		m.Text = "no master of " + t.Broker + " is registered"
		m.Try = nil
		m.offer("mqctl broker list", "start the master", "mqctl ha promote "+t.Broker+" --id N --force")
	}
	if t.Addr != "" {
		m.Addr = t.Addr
	}
	return &m
}

func unreachable(e *admin.Unreachable) *Message {
	m := fail(ExitUnreachable, "BROKER_UNREACHABLE", "broker %s: %s", e.Addr, netReason(e.Err))
	m.Addr = e.Addr
	switch {
	case errors.Is(e.Err, admin.ErrNoAddress):
		m.Text = "no master is registered"
		m.Code = "NO_MASTER"
		m = m.try("mqctl broker list", "start the master", "mqctl ha promote BROKER --id N --force")
	case tlsReason(e.Err) != "":
		m.reason("nothing was sent that the other side took")
	case e.Lost:
		m.reason("the connection was lost before the answer came" + perhapsChanged)
	}
	return m
}

func timedOut(e *admin.Timeout) *Message {
	m := fail(ExitTimeout, "TIMEOUT", "%s gave no answer to %s within %s", e.Addr, remoting.RequestName(e.Request), e.After)
	if e.Deadline {
		m = fail(ExitTimeout, "DEADLINE", "the deadline ended while %s was asked", e.Addr)
	}
	m.Addr = e.Addr
	return m
}

func refusal(e *admin.Refused) *Message {
	remark := strings.TrimSpace(oneLine(e.Remark))
	if remark == "" {
		remark = "no reason given"
	}
	m := fail(ExitFailed, "REFUSED", "%s refused: %s", e.Addr, remark)
	switch {
	case e.Overloaded():
		m = fail(ExitFailed, "OVERLOADED", "%s has too much to do at the moment and did nothing: %s", e.Addr, remark)
	case e.Unsupported():
		m = fail(ExitDenied, "NOT_OFFERED", "%s does not answer request %d (%s)", e.Addr, e.Request, remoting.RequestName(e.Request))
	case e.Denied():
		m = fail(ExitDenied, "DENIED", "%s denied it: %s", e.Addr, remark)
	}
	m.Addr = e.Addr
	return m.because("response code %d (%s) to request %d (%s)", e.Code, remoting.CodeName(e.Code), e.Request, remoting.RequestName(e.Request))
}

// noNameserver is message 1 of the contract.
func (c *call) noNameserver(e *admin.NoNameserver) *Message {
	parts := make([]string, len(e.Addrs))
	late, junk, lost := 0, 0, 0
	for i, addr := range e.Addrs {
		var t *admin.Timeout
		if errors.As(e.Errs[i], &t) {
			late++
		}
		var bad *admin.BadAnswer
		if parts[i] = addr + " " + netReason(e.Errs[i]); errors.As(e.Errs[i], &bad) {
			junk++
			parts[i] = bad.Error()
		}
		var gone *admin.Unreachable
		if errors.As(e.Errs[i], &gone) && gone.Lost && tlsReason(gone) == "" {
			lost++
		}
	}
	m := fail(ExitUnreachable, "NAMESRV_UNREACHABLE", "no nameserver reachable: %s", strings.Join(parts, ", "))
	if late > 0 && late == len(parts) {
		m.Code, m.ExitCode = "NAMESRV_TIMEOUT", ExitTimeout
		m.Text = "no nameserver answered: " + strings.Join(parts, ", ")
	}
	if junk > 0 && junk == len(parts) {
		m.Code = "BAD_PROTOCOL"
		m.Text = "no nameserver is understood: " + strings.Join(parts, ", ")
	}
	if lost == len(parts) && (c.active.settings == nil || !c.active.settings.TLS.Enable) {
		return m.because("a port that closes the connection at once is no nameserver's, or may want TLS").try("tls.enable = true in [context.NAME.tls] of the client file")
	}
	elsewhere := "mqctl -n HOST:9876 " + c.cmd.name(c.old) + c.repeated(func(f *flagSpec) bool {
		return !slices.Contains(connectionFlags, f.key) && !secretWord(f.key)
	})
	switch {
	case c.active.Name != "":
		m.reason("the addresses are those of the context %q", c.active.Name)
		if c.namesrvNamed() {
			m.Why = ""
		}
	case !c.namesrvNamed():
		m.reason("no -n, NAMESRV_ADDR or context was given, so the default address was tried")
		return m.try(elsewhere, "mqctl context add prod --namesrv HOST:9876")
	}
	return m.try(elsewhere)
}

// netReason is the shortest true text of a network error.
func netReason(err error) string {
	var gone *admin.Unreachable
	var late *admin.Timeout
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.As(err, &dns):
		return "name not resolved: " + dns.Name
	case tlsReason(err) != "":
		return tlsReason(err)
	case errors.As(err, &late):
		if late.Deadline {
			return "no answer before the deadline"
		}
		return fmt.Sprintf("no answer within %s", late.After)
	case errors.As(err, &gone):
		if gone.Lost {
			return "connection lost before the answer"
		}
		return netReason(gone.Err)
	}
	return err.Error()
}

// tlsReason says what went wrong between two sides that shall speak TLS with each
// other; "" when it was something else.
func tlsReason(err error) string {
	var (
		stranger x509.UnknownAuthorityError
		name     x509.HostnameError
		invalid  x509.CertificateInvalidError
		plain    tls.RecordHeaderError
		alert    *net.OpError
		frame    *remoting.FrameError
	)
	switch {
	case errors.As(err, &stranger):
		return "its certificate is signed by nobody who is trusted here (context setting tls.ca)"
	case errors.As(err, &name):
		return fmt.Sprintf("its certificate is not for %q, but for %s (context setting tls.server_name)", name.Host, strings.Join(namesOf(name.Certificate), ", "))
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Sprintf("its certificate is valid from %s to %s only", stamp(invalid.Cert.NotBefore), stamp(invalid.Cert.NotAfter))
	case errors.As(err, &plain):
		return "it does not speak TLS (context setting tls.enable)"
	case errors.As(err, &alert) && alert.Op == "remote error": // an alert, whose number only its text tells
		text := strings.TrimPrefix(alert.Err.Error(), "tls: ")
		if text == "certificate required" {
			return "it asks for a client certificate that it trusts (context settings tls.cert and tls.key)"
		}
		return "it refuses the TLS connection: " + text
	case errors.As(err, &frame) && frame.TLS:
		return "it speaks TLS (context setting tls.enable)"
	}
	return ""
}

// namesOf are the names that a certificate is for.
func namesOf(cert *x509.Certificate) []string {
	names := slices.Clone(cert.DNSNames)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return []string{"no host"}
	}
	return names[:min(5, len(names))]
}

// notFound names what there is instead.
func (c *call) notFound(e *admin.NotFound) *Message {
	code := strings.ToUpper(strings.ReplaceAll(e.Kind, " ", "_")) + "_NOT_FOUND"
	if e.Kind == "broker" && e.Name == "" {
		return fail(ExitNotFound, "CLUSTER_EMPTY", "nameserver %s knows no broker", e.Where).
			because("%sbrokers register when they start and every 30 s", c.nameserverAge(e.Where)).
			try("mqctl wait broker NAME --ready", "check namesrvAddr of the broker")
	}
	where := ""
	if e.Where != "" {
		where = " at " + e.Where
	}
	m := fail(ExitNotFound, code, "%s %q does not exist%s", e.Kind, e.Name, where)
	if near := nearest(e.Name, e.Known); len(near) > 0 {
		m.offer(near...)
	} else if len(e.Known) > 0 && len(e.Known) <= 5 {
		m.reason("there is: %s", strings.Join(e.Known, ", "))
	}
	return m
}

// nameserverAge says how long a nameserver has been up, if it tells: Apache's do not.
func (c *call) nameserverAge(addr string) string {
	if c.client == nil || c.ctx == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(c.ctx, time.Second)
	defer cancel()
	if up, ok := c.client.NameserverUptime(ctx, addr, time.Now()); ok {
		return "it has been up for " + shortDuration(up) + "; "
	}
	return ""
}

// targetMissing is message 3 of the contract.
func (c *call) targetMissing(e *admin.TargetMissing) *Message {
	m := usage("TARGET_MISSING", "%s needs a target", c.cmd.name(c.old)).
		because("%d clusters are registered: %s; nothing was changed", len(e.Clusters), strings.Join(e.Clusters, ", "))
	flag := "--cluster"
	if f := c.flag("cluster"); f != nil && c.old && f.short != "" {
		flag = "-" + f.short
	}
	for _, name := range e.Clusters[:min(len(e.Clusters), 2)] {
		m.offer("mqctl " + c.cmd.name(c.old) + " " + flag + " " + name + c.rest())
	}
	if f := c.flag("cluster"); f != nil {
		m = m.lacks(c.cmd, c.old, f, c.values)
		m.missing.known = e.Clusters
	}
	return m
}

// rest repeats the arguments and flags for a line to paste, but for --cluster.
func (c *call) rest() string {
	return c.repeated(func(f *flagSpec) bool { return f.key != "cluster" })
}

// ownRest repeats what says what the command does, and to which broker; secrets are
// left out.
func (c *call) ownRest() string {
	return c.repeated(func(f *flagSpec) bool {
		own := slices.ContainsFunc(c.cmd.flags, func(o flagSpec) bool { return o.key == f.key })
		return (own || f.key == "broker") && f.key != "cluster" && !secretWord(f.key)
	})
}

func (c *call) repeated(keep func(f *flagSpec) bool) string {
	var b strings.Builder
	for i, a := range c.args {
		for _, f := range c.vocab.flags {
			if c.old && f.arg == i+1 {
				b.WriteString(" " + c.vocab.hint(f))
			}
		}
		b.WriteString(" " + shellWord(c.shownArg(i, a)))
	}
	for _, f := range c.vocab.flags {
		for _, v := range c.values[f.key] {
			if !keep(f) {
				continue
			}
			b.WriteString(" " + c.vocab.hint(f))
			if f.kind == kindBool && (!c.old || f.bareOld || f.long == "") {
				continue
			}
			if f.kind == kindOptional {
				b.WriteString("=" + v)
				continue
			}
			b.WriteString(" " + shellWord(v))
		}
	}
	return b.String()
}

// shellWord quotes what a shell would not pass as one word.
func shellWord(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\n'\"\\$`&|;<>()*?[]{}#~!") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// badAddress is message 2 of the contract.
func badAddress(err error, what string) *Message {
	var b *admin.BadAddress
	if !errors.As(err, &b) {
		return asMessage(err)
	}
	m := usage("BAD_ADDRESS", "%q is not a %s address", b.Text, what).because("%s", b.Why)
	if _, rest, ok := strings.Cut(b.Text, "://"); ok && rest != "" {
		m.offer("-n " + strings.TrimRight(rest, "/"))
	}
	m.cause = err
	return m
}
