package cli

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"testing"

	"mqctl/broker"
	"mqctl/store/vfs"
)

// profilesOf are the profiles of a broker with these settings.
func profilesOf(t *testing.T, listen string, set ...string) (*http.ServeMux, error) {
	t.Helper()
	cfg, err := broker.LoadConfig(broker.ConfigInput{Set: set, HostName: "h", HomeDir: "/", LocalIP: "127.0.0.1", CPUs: 1, FS: vfs.OS{}})
	if err != nil {
		t.Fatal(err)
	}
	addr, err := net.ResolveTCPAddr("tcp", listen)
	if err != nil {
		t.Fatal(err)
	}
	p, err := newProfiles(cfg, addr)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	if p != nil {
		p.mount(mux)
	}
	return mux, nil
}

// TestProfilesAreGuarded: who gets what, by listener, token and the address asked for.
func TestProfilesAreGuarded(t *testing.T) {
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("planted-token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, listen, set, host, auth, path string
		want                                int
	}{
		{"loopback", "127.0.0.1:1", "", "127.0.0.1:1", "", "heap", 200},
		{"loopback by name", "127.0.0.1:1", "", "localhost:1", "", "goroutine?debug=2", 200},
		{"loopback of IPv6", "[::1]:1", "", "[::1]:1", "", "allocs", 200},
		{"another name for loopback", "127.0.0.1:1", "", "evil.example.com", "", "heap", 403},
		{"switched off", "127.0.0.1:1", "http.pprof=false", "127.0.0.1:1", "", "heap", 404},
		{"open to the network", "0.0.0.0:1", "", "127.0.0.1:1", "", "heap", 403},
		{"with a token", "0.0.0.0:1", "http.tokenFile=" + token, "mq7:1", "Bearer planted-token", "heap", 200},
		{"without the token", "0.0.0.0:1", "http.tokenFile=" + token, "mq7:1", "", "heap", 401},
		{"with another", "127.0.0.1:1", "http.tokenFile=" + token, "127.0.0.1:1", "Bearer planted-tokem", "heap", 401},
		{"unknown", "127.0.0.1:1", "", "127.0.0.1:1", "", "cmdline", 404},
		{"not given away", "127.0.0.1:1", "", "127.0.0.1:1", "", "mutex", 404},
		{"too long", "127.0.0.1:1", "", "127.0.0.1:1", "", "cpu?seconds=61", 400},
		{"no time", "127.0.0.1:1", "", "127.0.0.1:1", "", "cpu?seconds=0", 400},
		{"no number", "127.0.0.1:1", "", "127.0.0.1:1", "", "heap?debug=x", 400},
		{"the list", "127.0.0.1:1", "", "127.0.0.1:1", "", "", 200},
	} {
		set := []string{}
		if c.set != "" {
			set = append(set, c.set)
		}
		mux, err := profilesOf(t, c.listen, set...)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodGet, "http://x/debug/pprof/"+c.path, http.NoBody)
		r.Host = c.host
		if c.auth != "" {
			r.Header.Set("Authorization", c.auth)
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if w.Code != c.want || w.Code == 200 && w.Body.Len() == 0 || strings.Contains(w.Body.String(), "planted") {
			t.Errorf("%s: %d, want %d: %.100q", c.name, w.Code, c.want, w.Body.String())
		}
	}
	for _, bad := range []string{filepath.Join(dir, "none"), dir} {
		if _, err := profilesOf(t, "0.0.0.0:1", "http.tokenFile="+bad); err == nil {
			t.Errorf("%s passes for a file with a token", bad)
		}
	}
}

// TestProfileOneAtATime: a second CPU profile is refused, and one whose asker has
// gone ends at once.
func TestProfileOneAtATime(t *testing.T) {
	mux, err := profilesOf(t, "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	if pprof.StartCPUProfile(&bytes.Buffer{}) != nil {
		t.Skip("the tests themselves are being profiled")
	}
	ask := func(ctx context.Context) int {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/debug/pprof/cpu?seconds=60", http.NoBody)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		return w.Code
	}
	if code := ask(context.Background()); code != http.StatusTooManyRequests {
		t.Errorf("a second profile: %d", code)
	}
	pprof.StopCPUProfile()
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	ask(gone) // would take a minute
	if err := pprof.StartCPUProfile(&bytes.Buffer{}); err != nil {
		t.Errorf("the profile of one who has gone goes on: %v", err)
	}
	pprof.StopCPUProfile()
}
