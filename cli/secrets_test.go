package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mqctl/broker"
	"mqctl/broker/remoting"
	"mqctl/cli/admin"
	"mqctl/cli/shell"
)

// secretWorld is a folder with a broker of this program, one that answers as
// RocketMQ's, and secrets in every place where the tool takes one. Each secret is a
// word of its own, so that one that shows says where it came in.
type secretWorld struct {
	t       *testing.T
	dir     string
	ns      string // of our broker
	addr    string // our broker
	other   string // nameserver of the fake
	env     []string
	sources map[string]bool // files that hold a secret because somebody put it there
	planted int
}

// seed is the beginning of every secret here.
const seed = "pL4nted"

// plant makes a secret.
func (w *secretWorld) plant(where string) string {
	w.planted++
	return seed + "-" + where + "-" + strconv.Itoa(w.planted)
}

// source writes a file that holds a secret.
func (w *secretWorld) source(name, text string) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.sources[path] = true
	return path
}

// run runs a line in a process of its own and looks at what it prints. more are
// variables and, at the end, nothing else: the words of the line are args.
func (w *secretWorld) run(want int, more []string, args ...string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(w.dir, "bin", "mqctl"), args...)
	cmd.Dir, cmd.Env = w.dir, append(slices.Clone(w.env), more...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatalf("%q: %v\n%s", args, err, out.String())
	}
	if code := cmd.ProcessState.ExitCode(); want >= 0 && code != want {
		w.t.Errorf("%q: exit %d, want %d\n%s", args, code, want, out.String())
	}
	w.t.Logf("%s: exit %d, %d bytes", shell.Redact(strings.Join(args, " ")), cmd.ProcessState.ExitCode(), out.Len())
	w.clean(strings.Join(args, " "), out.Bytes())
	return out.String()
}

var seedWord = regexp.MustCompile(seed + `[\w-]*`)

// clean looks for secrets in what something gave out.
func (w *secretWorld) clean(what string, b []byte) {
	w.t.Helper()
	if found := seedWord.Find(b); found != nil {
		w.t.Errorf("%s shows %s", shell.Redact(what), found)
	}
}

// processes looks at the command lines of all processes that can be seen.
func (w *secretWorld) processes(what string) {
	w.t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, path := range lines {
		if b, err := os.ReadFile(path); err == nil { // others may have ended
			w.clean(what+": "+path, b)
		}
	}
}

// files looks at everything below the folder but what was put there.
func (w *secretWorld) files(what string) {
	w.t.Helper()
	err := filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || w.sources[path] || strings.HasSuffix(path, ".tar.gz") || filepath.Base(filepath.Dir(path)) == "commitlog" {
			return err
		}
		info, err := d.Info()
		if err != nil || info.Size() > 4<<20 {
			return err // index and consume queues are sparse
		}
		b, err := os.ReadFile(path)
		w.clean(what+": "+path, b)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a temporary file may go
		w.t.Error(err)
	}
}

func newSecretWorld(t *testing.T) *secretWorld {
	t.Helper()
	if testing.Short() {
		t.Skip("starts brokers")
	}
	w := &secretWorld{t: t, dir: t.TempDir(), sources: map[string]bool{}}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(w.dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(w.dir, "bin", "mqctl")); err != nil {
		t.Fatal(err)
	}
	w.env = []string{"HOME=" + w.dir, "XDG_STATE_HOME=" + filepath.Join(w.dir, "state"), "TMPDIR=" + w.dir, "LC_ALL=C.UTF-8", "GORACE=atexit_sleep_ms=0",
		"PATH=" + os.Getenv("PATH")}
	t.Cleanup(func() { stopAll(filepath.Join(w.dir, "state", "mqctl", "run")) })
	f := newFakeCluster(t)
	f.add("127.0.0.1", "broker-x", 0, 100, func(b *fakeBroker) {
		b.more = map[int]func(r *remoting.Request){}
		withAccounts(b)
		b.config["initAuthenticationUser"] = `{"username":"root","password":"` + w.plant("other-user") + `"}`
		b.config["innerClientAuthenticationCredentials"] = `{"accessKey":"` + w.plant("other-key") + `","secretKey":"` + w.plant("other-inner") + `"}`
		b.config["metricsGrpcExporterHeader"] = "Authorization:Bearer " + w.plant("other-header")
	})
	w.other = f.ns.addr
	return w
}

// start starts our broker with secrets in its file, its environment and the files
// that its settings name.
func (w *secretWorld) start() {
	w.t.Helper()
	var port [2]int
	for i := range port {
		var err error
		if port[i], err = freePorts(); err != nil {
			w.t.Fatal(err)
		}
	}
	w.addr, w.ns = fmt.Sprintf("127.0.0.1:%d", port[0]), fmt.Sprintf("127.0.0.1:%d", port[1])
	conf := w.source("broker.toml", fmt.Sprintf(`[auth]
initAuthenticationUser = '{"username":"root","password":"%s"}'
[http]
listen = "127.0.0.1:%d"
tokenFile = %q
[ha]
haAuthKeyFile = %q
[log]
level = "debug"
`, w.plant("file-user"), port[0]-1, w.source("token", w.plant("http-token")+"\n"), w.source("ha.key", w.plant("ha-key-of-sixteen-bytes-and-more")+"\n")))
	env := []string{"MQCTL_BROKER_METRICS_GRPC_EXPORTER_HEADER=Authorization:Bearer " + w.plant("env-header")}
	args := []string{"broker", "start", "-c", conf, "--name", "broker-a", "--listen", w.addr, "--with-nameserver=" + w.ns, "--store", filepath.Join(w.dir, "store")}
	w.run(ExitOK, env, append(slices.Clone(args), "--print-config=all")...)
	w.run(ExitOK, env, append(slices.Clone(args), "--check")...)
	for _, set := range []string{"http.token=", "initAuthenticationUser=", "innerClientAuthenticationCredentials=", "somePassword="} {
		if out := w.run(ExitUsage, env, append(slices.Clone(args), "--detach", "--set", set+w.plant("set"))...); !strings.Contains(out, "SECRET_VISIBLE") {
			w.t.Errorf("--set %s: %s", set, out)
		}
	}
	w.run(ExitOK, env, append(slices.Clone(args), "--detach", "--log", filepath.Join(w.dir, "broker.log"))...)
	w.processes("broker start --detach")
}

// TestSecretsShowNowhere puts a secret through every way into the tool and looks for
// it in everything that the tool and its broker give out.
func TestSecretsShowNowhere(t *testing.T) {
	w := newSecretWorld(t)
	w.start()
	w.signing()
	w.accounts()
	w.settings()
	w.brokenFiles()
	w.bundle()
	w.throwAway()
	w.typed()
	w.processes("at the end")
	w.files("at the end")
	w.run(ExitOK, nil, "broker", "stop", "broker-a/0")
	w.files("after the stop")
}

// signing gives keys to sign with in each way there is.
func (w *secretWorld) signing() {
	w.t.Helper()
	key := w.source("sk", w.plant("key-file")+"\n")
	config := w.source("client.toml", "current = \"a\"\n[context.a]\nnamesrv = [\""+w.ns+"\"]\naccess_key = \"ops\"\nsecret_key = \""+w.plant("context")+"\"\n")
	w.source("home/conf/tools.yml", "accessKey: ops\nsecretKey: "+w.plant("tools-yml")+"\n")
	for _, env := range [][]string{
		{"MQCTL_ACCESS_KEY=ops", "MQCTL_SECRET_KEY=" + w.plant("env")},
		{"MQCTL_ACCESS_KEY=ops", "MQCTL_SECRET_KEY_FILE=" + key},
		{"MQCTL_CONFIG=" + config},
		{"ROCKETMQ_HOME=" + filepath.Join(w.dir, "home")},
	} {
		env = append(env, "MQCTL_NAMESRV="+w.ns)
		for _, line := range []string{
			"cluster list --trace --log-level debug", "clusterList --trace", "config show --origin", "config show -o json", "context list -o json", "context show -o wide", "context test",
			"group set g --slow-broker 1 --trace -o json", "group get missing", "user list", "createUser -u a -b 127.0.0.1:1 --password-file " + key, "bench rtt --topic t --size nonsense",
		} {
			w.run(-1, env, strings.Fields(line)...)
		}
	}
	w.run(-1, []string{"MQCTL_NAMESRV=" + w.ns}, "cluster", "list", "--access-key", "ops", "--secret-key-file", key, "--trace")
	w.run(ExitOK, []string{"MQCTL_CONFIG=" + filepath.Join(w.dir, "new.toml")}, "context", "add", "b", "--namesrv", w.ns, "--secret-key-file", key, "--access-key", "ops")
}

// accounts creates and changes users and rules at a broker that has accounts.
func (w *secretWorld) accounts() {
	w.t.Helper()
	env := []string{"MQCTL_NAMESRV=" + w.other}
	file := w.source("pw", w.plant("password-file")+"\n")
	w.run(ExitOK, env, "user", "create", "ops", "--password-file", file, "--trace", "-o", "json")
	if out := w.run(ExitOK, env, "createUser", "-c", "C", "-u", "old", "-p", w.plant("mqadmin"), "-t", "Super", "--trace"); !strings.Contains(out, "PASSWORD_VISIBLE") {
		w.t.Errorf("createUser -p does not warn: %s", out)
	}
	w.run(ExitOK, env, "updateUser", "-c", "C", "-u", "old", "-p", w.plant("mqadmin"), "--dry-run", "--output", "wide")
	w.run(ExitOK, env, "updateUser", "-c", "C", "-u", "old", "-p", w.plant("mqadmin"))
	w.run(ExitOK, env, "user", "set", "ops", "--password-file", file, "--type", "Super", "-o", "json")
	w.run(ExitOK, env, "acl", "create", "--subject", "User:ops", "--resources", "Topic:*", "--actions", "Pub", "--decision", "Allow", "--trace")
	for _, line := range []string{"user list -o json", "listUser -c C", "user get ops -o wide", "getUser -c C -u old", "acl list -o json", "undo --yes", "audit list -o json", "audit list -o wide"} {
		w.run(-1, env, strings.Fields(line)...)
	}
	w.files("accounts")
}

// settings reads and changes settings that are secrets, at both brokers.
func (w *secretWorld) settings() {
	w.t.Helper()
	file := w.source("user", `{"username":"root","password":"`+w.plant("setting-file")+`"}`)
	plan := w.source("plan.toml", "[config]\ninitAuthenticationUser = '{\"username\":\"r\",\"password\":\""+w.plant("plan")+"\"}'\n")
	lint := w.source("lint.conf", "brokerName=broker-a\ninitAuthenticationUser="+w.plant("lint")+"\nhttp.token="+w.plant("lint")+"\nsomePassword="+w.plant("lint")+"\n")
	for _, ns := range []string{w.ns, w.other} {
		env := []string{"MQCTL_NAMESRV=" + ns, "A_SECRET=" + w.plant("setting-env")}
		if out := w.run(ExitOK, env, "broker", "config", "set", "initAuthenticationUser="+w.plant("argument"), "--dry-run", "-o", "json"); !strings.Contains(out, "SECRET_VISIBLE") {
			w.t.Errorf("config set does not warn: %s", out)
		}
		if out := w.run(-1, env, "broker", "config", "set", "initAuthenticationUser=file:"+file, "--trace"); strings.Contains(out, "SECRET_VISIBLE") {
			w.t.Errorf("config set warns of a file: %s", out)
		}
		w.run(-1, env, "broker", "config", "set", "innerClientAuthenticationCredentials=env:A_SECRET", "-o", "json", "--log-level", "debug")
		w.run(-1, env, "updateBrokerConfig", "-c", clusterFor(ns, w), "-k", "initAuthenticationUser", "-v", w.plant("mqadmin-value"))
		w.run(-1, env, "nameserver", "config", "set", "somePassword", w.plant("namesrv"))
		w.run(-1, env, "broker", "config", "set", "http.token="+w.plant("fixed"))
		for _, line := range []string{
			"broker config get --all -o json --origin", "broker config get --changed", "getBrokerConfig -c " + clusterFor(ns, w), "broker config get initAuthenticationUser -o csv", "broker status --raw -o json",
			"nameserver config get -o json", "plan -f " + plan, "plan -f " + plan + " -o json", "apply -f " + plan + " --yes -o json", "apply -f " + plan + " --yes", "undo --yes", "audit list -o json",
			"cluster export --what configs,topics,groups --out " + filepath.Join(w.dir, "export-"+ns[10:]+".toml"), "exportConfigs -c " + clusterFor(ns, w) + " -f " + filepath.Join(w.dir, "export-"+ns[10:]),
			"exportMetrics -c " + clusterFor(ns, w) + " -f " + filepath.Join(w.dir, "metrics-"+ns[10:]), "events -o json", "events --kind config -o wide", "top --once",
		} {
			w.run(-1, env, strings.Fields(line)...)
		}
	}
	env := []string{"MQCTL_NAMESRV=" + w.ns}
	for _, line := range []string{
		"config lint " + lint + " -o json", "config lint " + lint, "config lint --all " + lint, "config convert " + lint + " -o json", "config show " + lint, "broker config diff broker-a/0 --file " + plan,
		"broker config diff broker-a/0 --file " + filepath.Join(w.dir, "broker.toml"), "broker logs broker-a -o json --level debug", "broker logs broker-a --level debug",
		"explain initAuthenticationUser", "debug profile broker-a --seconds 1 --token-file " + filepath.Join(w.dir, "token") + " --out " + filepath.Join(w.dir, "cpu.prof"),
	} {
		w.run(-1, env, strings.Fields(line)...)
	}
	w.told()
	converted := filepath.Join(w.dir, "converted.conf")
	w.sources[converted] = true
	w.run(ExitOK, env, "config", "convert", filepath.Join(w.dir, "broker.toml"), "--out", converted)
	for path := range w.sources { // the broker's own file was written anew by config set
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			w.t.Errorf("others may read %s: %v, %v", path, info, err)
		}
	}
	w.files("settings")
}

func clusterFor(ns string, w *secretWorld) string {
	if ns == w.other {
		return "C"
	}
	return "DefaultCluster"
}

// told asks our broker itself, as any tool may.
func (w *secretWorld) told() {
	w.t.Helper()
	c := admin.New(admin.Options{Nameservers: []string{w.ns}, Timeout: 10 * time.Second})
	defer c.Close()
	got, err := c.BrokerConfig(context.Background(), w.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	w.clean("GET_BROKER_CONFIG", fmt.Append(nil, got.Values))
	for _, key := range []string{"initAuthenticationUser", "innerClientAuthenticationCredentials", "metricsGrpcExporterHeader"} {
		if got.Values[key] != broker.Hidden {
			w.t.Errorf("%s is %q, want %q", key, got.Values[key], broker.Hidden)
		}
	}
	// What is read must not be written back in the place of the secret.
	if _, err := c.UpdateBrokerConfig(context.Background(), w.addr, map[string]string{"initAuthenticationUser": broker.Hidden}); err == nil {
		w.t.Error("the mark of a hidden value was taken for a value")
	}
}

// brokenFiles puts secrets into files that cannot be read.
func (w *secretWorld) brokenFiles() {
	w.t.Helper()
	for i, value := range []string{w.plant("bare"), "true" + w.plant("true"), "\"" + w.plant("open"), "'" + w.plant("quoted") + "\n", "0xpL4nted", "1.2" + w.plant("number"), "[\"" + w.plant("list") + "\"]"} {
		client := w.source(fmt.Sprintf("bad-client-%d.toml", i), "[context.a]\nsecret_key = "+value+"\n")
		w.run(-1, []string{"MQCTL_CONFIG=" + client}, "cluster", "list", "--context", "a", "-n", w.ns)
		conf := w.source(fmt.Sprintf("bad-broker-%d.toml", i), "[auth]\ninitAuthenticationUser = "+value+"\n")
		for _, line := range []string{"config lint " + conf, "config convert " + conf + " -o json", "broker start --check -c " + conf, "plan -n " + w.ns + " -f " + conf} {
			w.run(-1, nil, strings.Fields(line)...)
		}
	}
	for _, env := range []string{"MQCTL_BROKER_HTTP_TOKEN=", "MQCTL_BROKER_INIT_AUTHENTICATION_USER=\x01", "MQCTL_BROKER_SOME_PASSWORD="} {
		w.run(ExitBadConfig, []string{env + w.plant("variable")}, "broker", "start", "--check", "--store", filepath.Join(w.dir, "none"))
	}
}

// bundle collects diagnostics of both clusters.
func (w *secretWorld) bundle() {
	w.t.Helper()
	for i, env := range [][]string{
		{"MQCTL_NAMESRV=" + w.ns, "MQCTL_ACCESS_KEY=ops", "MQCTL_SECRET_KEY=" + w.plant("bundle-env")},
		{"MQCTL_NAMESRV=" + w.other, "MQCTL_CONFIG=" + filepath.Join(w.dir, "client.toml")},
	} {
		file := filepath.Join(w.dir, fmt.Sprintf("b%d.tar.gz", i))
		w.run(-1, env, "debug", "bundle", "--out", file, "--since", "1h", "--trace")
		parts, err := readBundle(file)
		if err != nil {
			w.t.Fatal(err)
		}
		for name, b := range parts {
			w.clean("bundle: "+name, b)
		}
		w.run(-1, nil, "debug", "analyse", file, "-o", "json")
	}
}

// throwAway looks at the processes that mqctl dev starts.
func (w *secretWorld) throwAway() {
	w.t.Helper()
	cmd := exec.Command(filepath.Join(w.dir, "bin", "mqctl"), "dev", "--no-shell")
	cmd.Dir = w.dir
	cmd.Env = append(slices.Clone(w.env), "MQCTL_SECRET_KEY="+w.plant("dev"), "MQCTL_ACCESS_KEY=ops", "MQCTL_BROKER_INIT_AUTHENTICATION_USER="+w.plant("dev"))
	out, err := os.Create(filepath.Join(w.dir, "dev.out"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	deadline := time.After(2 * time.Minute)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for ready := false; !ready; {
		select {
		case <-deadline:
			w.t.Error("mqctl dev is not ready")
			ready = true
		case <-tick.C:
			said, err := os.ReadFile(out.Name())
			ready = err != nil || strings.Contains(string(said), "Ctrl-C")
		}
	}
	w.processes("dev")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		w.t.Error(err)
	}
	_ = cmd.Wait() // its code is that of the signal
	w.files("dev")
}

// typed types secrets into the shell on a terminal and looks at what it remembers.
func (w *secretWorld) typed() {
	w.t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		return // history_test.go looks at the lines
	}
	p := newPane(w.t, 160, 50, "MQCTL_NAMESRV="+w.other)
	p.line("mqctl shell")
	p.await("mqctl>")
	for i, line := range []string{
		"createUser -c C -u typed -p " + w.plant("shell"), "broker config set initAuthenticationUser=" + w.plant("shell"),
		"updateBrokerConfig -c C -k innerClientAuthenticationCredentials -v " + w.plant("shell"), "nameserver config set somePassword " + w.plant("shell"),
	} {
		p.line(line)
		p.line(fmt.Sprintf("!expr %d + 7700", i))
		p.shows(fmt.Sprintf("\n%d\n", i+7700))
	}
	p.line("user create prompted")
	for _, prompt := range []string{"password:", "again:"} {
		p.await(prompt)
		p.line(seed + "-prompt")
	}
	screen := p.shows("prompted  broker-x")
	w.clean("the terminal after a prompt", []byte(screen[strings.LastIndex(screen, "user create prompted"):]))
	p.keys("C-d")
	p.await("sh:")
	home := &secretWorld{t: w.t, dir: p.dir} // with the history and the audit file
	home.files("the shell")
	if b := p.file("state/mqctl/history"); !strings.Contains(b, "createUser") || !strings.Contains(b, "***") {
		w.t.Errorf("the shell remembers nothing: %q", b)
	}
}

// TestSecretNames: what the broker hides the history does not keep either, and
// nothing harmless is taken for a secret.
func TestSecretNames(t *testing.T) {
	var names []string
	for _, k := range broker.KnownKeys() {
		if k.Secret {
			names = append(names, k.Name)
		}
		if want := "config set " + k.Name + "=***"; k.Secret && shell.Redact("broker config set "+k.Name+"=word") != "broker "+want {
			t.Errorf("the history keeps %s", k.Name)
		}
		if k.Secret && strings.Contains(shell.Redact("updateBrokerConfig -c C -k "+k.Name+" -v word"), "word") {
			t.Errorf("the history keeps -k %s -v", k.Name)
		}
	}
	if want := "http.token initAuthenticationUser innerClientAuthenticationCredentials metricsGrpcExporterHeader"; strings.Join(names, " ") != want {
		t.Errorf("secrets are %q, want %q", names, want)
	}
	for _, key := range []string{"group/token-service", "topic/passwords", "offset/secret/t/0", "user/credentials", "config/haAuthKeyFile", "config/http.tokenFile"} {
		if secretThing(key) {
			t.Errorf("%s is no secret", key)
		}
	}
	for _, line := range []string{"group set token-service --slow-broker 1", "topic get passwords", "broker config set haAuthKeyFile=/etc/key"} {
		if got := shell.Redact(line); got != line {
			t.Errorf("%q is kept as %q", line, got)
		}
	}
}
