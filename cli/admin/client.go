package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"mqctl/broker/remoting"
	"mqctl/store/fastjson"
)

// Options of a Client. Zero values mean the defaults in brackets.
type Options struct {
	// Nameservers are host:port addresses, asked in this order until one answers.
	Nameservers []string
	// Timeout bounds one request [5 s]. The context of a call bounds all of its requests.
	Timeout time.Duration
	// Retries is how often a read is asked again after a lost connection or a
	// missing answer [0: once, and after a lost connection only, so that a silent
	// peer costs its time once; negative: never]. Writes are never repeated.
	Retries int
	// Parallel is how many targets are asked at the same time [8].
	Parallel int
	// Dial replaces the network.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// AccessKey and SecretKey sign every request, when both are given.
	AccessKey, SecretKey string
	// Trace is called after each request: code, address, bytes out and in, time, error.
	Trace func(code int, addr string, out, in int, took time.Duration, err error)
}

// Client talks to nameservers and brokers. Its methods may be used from several
// goroutines at once.
type Client struct {
	o    Options
	net  *remoting.Client
	late bool // ask again when an answer did not come in time, too
	// first is the index of the nameserver that answered last: it is asked first.
	first atomic.Int32
}

// New makes a client; it connects to nothing yet.
func New(o Options) *Client {
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Second
	}
	late := true
	switch {
	case o.Retries == 0:
		o.Retries, late = 1, false
	case o.Retries < 0:
		o.Retries = 0
	}
	if o.Parallel <= 0 {
		o.Parallel = 8
	}
	return &Client{o: o, late: late, net: remoting.NewClient(remoting.ClientOptions{
		DialTimeout: min(o.Timeout, 3*time.Second),
		Dial:        o.Dial,
		Trace:       o.Trace,
	})}
}

// Close ends all connections.
func (c *Client) Close() { c.net.Close() }

// Nameservers are the addresses given in Options.
func (c *Client) Nameservers() []string { return c.o.Nameservers }

// SplitAddresses reads a list of host:port separated by semicolons, commas or
// blanks, as -n takes it, and drops repeats. The error is a *BadAddress.
func SplitAddresses(list string) ([]string, error) {
	var out []string
	seen := make(map[string]bool)
	for _, a := range strings.FieldsFunc(list, func(r rune) bool { return r == ';' || r == ',' || r == ' ' || r == '\t' || r == '\n' }) {
		if err := checkAddress(a); err != nil {
			return nil, err
		}
		if !seen[a] {
			seen[a] = true
			out = append(out, a)
		}
	}
	return out, nil
}

func checkAddress(a string) error {
	if strings.Contains(a, "://") {
		return &BadAddress{Text: a, Why: "host:port is expected, without a scheme"}
	}
	host, port, err := net.SplitHostPort(a)
	if err != nil || host == "" || port == "" {
		return &BadAddress{Text: a, Why: "host:port is expected"}
	}
	if n, err := net.LookupPort("tcp", port); err != nil || n == 0 {
		return &BadAddress{Text: a, Why: fmt.Sprintf("%q is not a port", port)}
	}
	return nil
}

// request is one call: what to send and whether it may be sent twice.
type request struct {
	code  int
	ext   remoting.Map
	body  []byte
	write bool
	extra time.Duration // time the peer may hold the request on purpose
	// relayed says that the peer asks one of its clients, which may be the silent one.
	relayed bool
}

// ask sends r to addr and returns whatever answer came.
func (c *Client) ask(ctx context.Context, addr string, r request) (*remoting.Response, error) {
	if addr == "" {
		return nil, &Unreachable{Err: ErrNoAddress}
	}
	if err := unanswered(ctx, addr, r); err != nil {
		return nil, err
	}
	attempts := 1
	if !r.write {
		attempts += c.o.Retries
	}
	for {
		attempts--
		resp, err := c.askOnce(ctx, addr, r)
		if err == nil {
			return resp, nil
		}
		if attempts == 0 || !c.worthRetry(err) || ctx.Err() != nil {
			noteSilence(ctx, addr, r, err)
			return nil, err
		}
	}
}

// worthRetry: a refused connection is refused again a moment later; an answer
// that did not come, or a connection that broke, may be luck.
func (c *Client) worthRetry(err error) bool {
	var lost *Unreachable
	var late *Timeout
	return errors.As(err, &lost) && lost.Lost || c.late && errors.As(err, &late) && !late.Deadline
}

func (c *Client) askOnce(ctx context.Context, addr string, r request) (*remoting.Response, error) {
	limit := c.o.Timeout + r.extra
	one, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var ext remoting.ExtEncoder
	if r.ext != nil {
		ext = r.ext
	}
	if c.o.AccessKey != "" {
		ext = signed(r.ext, r.body, c.o.AccessKey, c.o.SecretKey)
	}
	resp, err := c.net.Call(one, addr, r.code, ext, r.body)
	if err != nil {
		return nil, failed(ctx, addr, r.code, limit, err)
	}
	return resp, nil
}

// call is ask where anything but success is an error.
func (c *Client) call(ctx context.Context, addr string, r request) (*remoting.Response, error) {
	resp, err := c.ask(ctx, addr, r)
	if err != nil {
		return nil, err
	}
	if resp.Code != remoting.CodeSuccess {
		return nil, &Refused{Addr: addr, Request: r.code, Code: resp.Code, Remark: resp.Remark}
	}
	return resp, nil
}

// callJSON is call with a JSON body in the answer, read into v.
func (c *Client) callJSON(ctx context.Context, addr string, r request, v any) error {
	resp, err := c.call(ctx, addr, r)
	if err != nil {
		return err
	}
	return decode(addr, r.code, resp.Body, v)
}

// decode reads fastjson's dialect.
func decode(addr string, code int, body []byte, v any) error {
	if len(body) == 0 {
		return &BadAnswer{Addr: addr, Request: code, Err: errors.New("the body is empty")}
	}
	if err := fastjson.Unmarshal(body, v); err != nil {
		return &BadAnswer{Addr: addr, Request: code, Err: err}
	}
	return nil
}

// anyNameserver runs f with the nameservers one after another, beginning with
// the one that answered last, until one answers, be it with a refusal.
func anyNameserver[T any](ctx context.Context, c *Client, f func(addr string) (T, error)) (T, error) {
	var zero T
	n := len(c.o.Nameservers)
	none := &NoNameserver{}
	begin := int(c.first.Load())
	for i := range n {
		at := (begin + i) % n
		addr := c.o.Nameservers[at]
		v, err := f(addr)
		if !silent(err) {
			c.first.Store(int32(at))
			return v, err
		}
		none.Addrs = append(none.Addrs, addr)
		none.Errs = append(none.Errs, err)
		if ctx.Err() != nil {
			return zero, err
		}
	}
	return zero, none
}

// silent reports whether err means that the peer gave no usable answer.
func silent(err error) bool {
	if err == nil {
		return false
	}
	var unreachable *Unreachable
	var late *Timeout
	var bad *BadAnswer
	return errors.As(err, &unreachable) || errors.As(err, &late) || errors.As(err, &bad) ||
		errors.Is(err, context.Canceled)
}
