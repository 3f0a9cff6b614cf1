package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"mqctl/cli/admin"
)

// mostProfile bounds what is read of an answer: bytes.
const mostProfile = 64 << 20

// profileAt is where a broker gives its profiles away.
type profileAt struct {
	addr  string // host:port
	name  string // NAME/ID, which the answering process must have; "" for any
	token string
}

// httpToken is the token of --token-file; "" without one.
func (c *call) httpToken() (string, error) {
	name := c.str("token-file")
	if name == "" {
		return "", nil
	}
	token, err := readToken(name)
	if err != nil {
		return "", fail(ExitBadConfig, "BAD_FILE", "--token-file: %v", err)
	}
	return token, nil
}

// profileOf finds the http address of a broker: by the note of one that runs here,
// else by its configuration.
func (c *call) profileOf(ctx context.Context, t admin.Target, config map[string]string) (string, error) {
	for _, l := range localBrokers(c) {
		if l.Addr == t.Addr {
			if l.HTTPAddr == "" {
				return "", noProfiles(t, "its http port is off")
			}
			return l.HTTPAddr, nil
		}
	}
	if config == nil {
		cfg, err := c.client.BrokerConfig(ctx, t.Addr)
		if err != nil {
			return "", err
		}
		config = cfg.Values
	}
	listen, ours := config["http.listen"]
	if !ours {
		return "", fail(ExitDenied, "NOT_OFFERED", "%s is no broker of mqctl: it gives no profiles away", t).because("nothing was written")
	}
	host, port, err := net.SplitHostPort(listen)
	there, _, err2 := net.SplitHostPort(t.Addr)
	switch {
	case listen == "" || listen == "off":
		return "", noProfiles(t, "http.listen is off")
	case config["http.pprof"] == "false":
		return "", noProfiles(t, "http.pprof is false")
	case err != nil || err2 != nil:
		return "", noProfiles(t, "http.listen is "+listen)
	case loopback(host) && !loopback(there) && !own(there):
		return "", fail(ExitUnreachable, "NOT_REACHABLE", "%s gives profiles away on its own machine only (http.listen=%s)", t, listen).
			because("that address is not of this machine").try("ssh "+there+" mqctl debug profile "+t.String(), "ssh -L "+port+":"+listen+" "+there+"; mqctl debug profile --http 127.0.0.1:"+port)
	case host == "" || net.ParseIP(host) != nil && net.ParseIP(host).IsUnspecified():
		host = there
	}
	return net.JoinHostPort(host, port), nil
}

func noProfiles(t admin.Target, why string) *Message {
	return fail(ExitDenied, "NOT_OFFERED", "%s gives no profiles away", t).because("%s", why).try("mqctl broker start --http 127.0.0.1:10980 ...")
}

// own reports whether host is an address of this machine.
func own(host string) bool {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.String() == host {
			return true
		}
	}
	return false
}

// profile asks for one profile. It first asks who answers, as the default port may
// be that of another broker of the machine.
func (p profileAt) profile(ctx context.Context, patience time.Duration, kind string, seconds, debug int) ([]byte, error) {
	hello, err := p.get(ctx, patience, "/", nil)
	if err != nil {
		return nil, err
	}
	title, _, _ := strings.Cut(string(hello), "\n")
	if _, who, ok := strings.Cut(title, " broker "); !ok || !strings.HasPrefix(title, "mqctl ") || p.name != "" && who != p.name {
		return nil, fail(ExitNotFound, "OTHER_PROCESS", "%s is not the http port of %s", p.addr, firstOf(p.name, "a broker of mqctl")).
			because("there answers: %s", shown(title)).try("--http HOST:PORT")
	}
	query := url.Values{}
	if kind == "cpu" {
		query.Set("seconds", strconv.Itoa(seconds))
		patience += time.Duration(seconds) * time.Second
	} else if debug > 0 {
		query.Set("debug", strconv.Itoa(debug))
	}
	return p.get(ctx, patience, "/debug/pprof/"+kind, query)
}

// shown is the beginning of somebody else's text.
func shown(text string) string {
	text = oneLine(text)
	if len(text) > 80 {
		text = strings.ToValidUTF8(text[:80], "") + "..."
	}
	return fmt.Sprintf("%q", text)
}

func (p profileAt) get(ctx context.Context, patience time.Duration, path string, query url.Values) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	u := url.URL{Scheme: "http", Host: p.addr, Path: path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, usage("BAD_ADDRESS", "%q is no address", p.addr).try("--http 127.0.0.1:10980")
	}
	if p.token != "" && strings.HasPrefix(path, "/debug/") {
		req.Header.Set("Authorization", "Bearer "+p.token)
	}
	// No proxy and no redirection: the token goes to this address and no other.
	client := &http.Client{
		Transport:     &http.Transport{DialContext: (&net.Dialer{Timeout: min(patience, 3*time.Second)}).DialContext, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, p.lost(ctx, err, patience)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostProfile+1))
	switch {
	case err != nil:
		return nil, p.lost(ctx, err, patience)
	case len(body) > mostProfile:
		return nil, fail(ExitUnreachable, "BAD_PROTOCOL", "%s sends more than %d bytes", p.addr, mostProfile)
	case resp.StatusCode == http.StatusOK:
		return body, nil
	case resp.StatusCode == http.StatusUnauthorized:
		return nil, fail(ExitDenied, "DENIED", "%s asks for another token", p.addr).because("%s", shown(strings.TrimSpace(string(body)))).try("--token-file FILE")
	case resp.StatusCode == http.StatusForbidden, resp.StatusCode == http.StatusNotFound:
		return nil, fail(ExitDenied, "NOT_OFFERED", "%s gives no profiles away", p.addr).because("%s", shown(strings.TrimSpace(string(body)))).try("mqctl broker config explain http.pprof", "mqctl broker config explain http.tokenFile")
	}
	return nil, fail(ExitFailed, "REFUSED", "%s answers %d: %s", p.addr, resp.StatusCode, shown(strings.TrimSpace(string(body))))
}

// lost explains why there is no answer.
func (p profileAt) lost(ctx context.Context, err error, patience time.Duration) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil:
		return fail(ExitTimeout, "TIMEOUT", "%s gave no answer within %s", p.addr, patience)
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return fail(ExitUnreachable, "UNREACHABLE", "http port %s: %s", p.addr, netReason(op)).try("--http HOST:PORT")
	}
	return fail(ExitUnreachable, "BAD_PROTOCOL", "%s does not speak HTTP: %s", p.addr, shown(err.Error())).try("--http HOST:PORT")
}
