package cli

import (
	"bytes"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"time"

	"mqctl/broker"
)

// profileKinds are the profiles that a broker gives away, by the names of Go's
// pprof. None of them holds memory contents: only names of functions and counts.
var profileKinds = []string{"cpu", "heap", "allocs", "goroutine"}

// Bounds of a CPU profile: seconds.
const (
	profileSeconds     = 10
	mostProfileSeconds = 60
)

// profiles serves /debug/pprof/. Without a token it answers only at an address of
// this machine's loopback, and only to requests that name that address, so that a
// page in a browser cannot reach it under another name.
type profiles struct {
	token string
	open  bool       // the listener is on loopback
	busy  sync.Mutex // one CPU profile at a time, which the runtime demands
}

// newProfiles are the profiles that the configuration allows; nil: none.
func newProfiles(cfg *broker.Config, listen net.Addr) (*profiles, error) {
	if !cfg.Bool("http.pprof") {
		return nil, nil
	}
	host, _, err := net.SplitHostPort(listen.String())
	p := &profiles{open: err == nil && loopback(host)}
	name := cfg.Value("http.tokenFile")
	if name == "" {
		return p, nil
	}
	if p.token, err = readToken(name); err != nil {
		return nil, fail(ExitBadConfig, "BAD_CONFIG", "http.tokenFile: %v", err)
	}
	return p, nil
}

// loopback reports whether host is this machine and no other.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback() || host == "localhost"
}

// readToken reads the one line of a token file.
func readToken(name string) (string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxSecret {
		return "", fmt.Errorf("%s is no file with a token", name)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(b))
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("%s does not hold one word", name)
	}
	return token, nil
}

// mount adds the paths to mux.
func (p *profiles) mount(mux *http.ServeMux) {
	mux.HandleFunc("GET /debug/pprof/{$}", p.guarded(func(w http.ResponseWriter, _ *http.Request) {
		say(w, strings.Join(profileKinds, "\n"))
	}))
	mux.HandleFunc("GET /debug/pprof/{kind}", p.guarded(p.serve))
}

// guarded lets through only who may have profiles.
func (p *profiles) guarded(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		switch {
		case p.token != "":
			given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			if !ok || subtle.ConstantTimeCompare([]byte(given), []byte(p.token)) != 1 {
				w.Header().Set("WWW-Authenticate", "Bearer")
				refuse(w, http.StatusUnauthorized, "profiles ask for the token of http.tokenFile")
				return
			}
		case !p.open:
			refuse(w, http.StatusForbidden, "profiles are off: http.listen is not loopback, and http.tokenFile is not set")
			return
		case !loopback(strings.Trim(host, "[]")):
			refuse(w, http.StatusForbidden, "profiles are for requests to a loopback address")
			return
		}
		next(w, r)
	}
}

func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	say(w, why)
}

// serve takes one profile: cpu over ?seconds=, the others as they are now, as text
// with ?debug=1 or 2.
func (p *profiles) serve(w http.ResponseWriter, r *http.Request) {
	kind := r.PathValue("kind")
	if kind == "cpu" || kind == "profile" {
		p.cpu(w, r)
		return
	}
	prof := pprof.Lookup(kind)
	if prof == nil || kind != "heap" && kind != "allocs" && kind != "goroutine" {
		refuse(w, http.StatusNotFound, "there are "+strings.Join(profileKinds, ", "))
		return
	}
	debug, err := whole(r, "debug", 0, 2)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	var b bytes.Buffer
	if err := prof.WriteTo(&b, debug); err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	give(w, kind, debug > 0, &b)
}

// cpu measures for the seconds asked for, or until the asker has gone.
func (p *profiles) cpu(w http.ResponseWriter, r *http.Request) {
	seconds, err := whole(r, "seconds", 1, mostProfileSeconds)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	if seconds == 0 {
		seconds = profileSeconds
	}
	if !p.busy.TryLock() {
		refuse(w, http.StatusTooManyRequests, "a profile is being taken")
		return
	}
	defer p.busy.Unlock()
	long := time.Duration(seconds) * time.Second
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(long + 10*time.Second)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	var b bytes.Buffer
	if err := pprof.StartCPUProfile(&b); err != nil {
		refuse(w, http.StatusTooManyRequests, err.Error())
		return
	}
	over := rest(r.Context(), long)
	pprof.StopCPUProfile()
	if over {
		give(w, "cpu", false, &b)
	}
}

// whole is a number of the query; 0 when it is not there.
func whole(r *http.Request, key string, least, most int) (int, error) {
	text := r.URL.Query().Get(key)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s: a number from %d to %d is expected", key, least, most)
	}
	return n, nil
}

func give(w http.ResponseWriter, kind string, text bool, b *bytes.Buffer) {
	if text {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	} else {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Disposition", `attachment; filename="`+kind+`.pprof"`)
	}
	_, _ = b.WriteTo(w) // an asker that has gone misses it
}
