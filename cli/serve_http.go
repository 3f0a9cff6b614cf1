package cli

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// healthServer answers /livez, /readyz and /startupz, and gives profiles away where
// the configuration allows it.
//
// Goroutines: serve starts one, which owns the listener and ends with ctx.
type healthServer struct {
	listener net.Listener
	check    func() error      // nil when ready
	started  <-chan struct{}   // closed at the first readiness
	name     func() (s string) // who answers
	profiles *profiles         // nil: none
}

// listenHealth opens the health port. A default address that is taken is only
// worth a warning; one that somebody chose is an error.
func listenHealth(addr string, asked bool) (l net.Listener, warn *Message, err error) {
	if addr == "" {
		return nil, nil, nil
	}
	l, err = net.Listen("tcp", addr)
	if err == nil {
		return l, nil, nil
	}
	m := portTaken(addr, err)
	if asked {
		return nil, nil, m.try("--http off", "--http 127.0.0.1:0")
	}
	m.Code, m.ExitCode = "HTTP_OFF", 0
	m.Text = "health port is off: " + m.Text
	return nil, m.try("--http off", "--http HOST:PORT"), nil
}

func (h *healthServer) serve(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { answer(w, nil) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, h.check()) })
	mux.HandleFunc("GET /startupz", func(w http.ResponseWriter, _ *http.Request) {
		select {
		case <-h.started:
			answer(w, nil)
		default:
			answer(w, errors.New("starting"))
		}
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		say(w, h.name()+"\n/livez /readyz /startupz")
	})
	if h.profiles != nil {
		h.profiles.mount(mux)
	}
	s := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10,
	}
	stop := context.AfterFunc(ctx, func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = s.Shutdown(end) // probes that are still being answered get a second
	})
	defer stop()
	if err := s.Serve(h.listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func answer(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		say(w, err.Error())
		return
	}
	say(w, "ok")
}

// say writes one line; a prober that has gone misses it.
func say(w io.Writer, text string) {
	if _, err := io.WriteString(w, text+"\n"); err != nil {
		return
	}
}
