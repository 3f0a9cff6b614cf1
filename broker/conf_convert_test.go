package broker

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestConvertShapes takes a file of every shape that RocketMQ ships through TOML
// and back: the settings and the comments are the same afterwards.
func TestConvertShapes(t *testing.T) {
	files, err := filepath.Glob("testdata/shapes/*")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		asTOML, err := ToTOML(name, data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !looksLikeTOML(name, string(asTOML)) {
			t.Errorf("%s: the result does not look like TOML:\n%s", name, asTOML)
		}
		back, err := ToProperties(name, asTOML)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, asTOML)
			continue
		}
		first, _ := parseProperties(string(data))
		second, _ := parseProperties(string(back))
		if a, b := settingsOf(first), settingsOf(second); !maps.Equal(a, b) {
			t.Errorf("%s: settings were\n%v\nand are\n%v", name, a, b)
		}
		if a, b := commentsOf(string(data)), commentsOf(string(back)); !slices.Equal(a, b) {
			t.Errorf("%s: comments were\n%q\nand are\n%q", name, a, b)
		}
		again, err := ToTOML(name, back)
		if err != nil || string(again) != string(asTOML) {
			t.Errorf("%s: a second conversion differs: %v\n%s\n%s", name, err, asTOML, again)
		}
	}
}

func commentsOf(text string) (out []string) {
	for _, l := range naturalLines(text) {
		if l = strings.TrimSpace(l); l != "" && (l[0] == '#' || l[0] == '!') {
			out = append(out, "#"+l[1:])
		}
	}
	slices.Sort(out)
	return out
}

func TestToTOML(t *testing.T) {
	in := "# mine\n\n# who\nbrokerName=b\nmapedFileSizeCommitLog=4096\n\n# pool\nsendMessageThreadPoolNums=4\nbrokerId=1\nbrokerId=2\nstrange\\ key=x\\ty\n# end\n"
	want := `# mine

[broker]
# who
brokerName = "b"
# set again below: brokerId = 1
brokerId = 2

[store]
mappedFileSizeCommitLog = 4096

[apache]
# pool
sendMessageThreadPoolNums = 4
"strange key" = "x\u0009y"

# end
`
	got, err := ToTOML("x.conf", []byte(in))
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
}

func TestToProperties(t *testing.T) {
	in := "# head\n\n[store]\nmaxMessageSize = \"4MiB\" # large\n[http]\nlisten = \"off\"\n[flush]\nflushIntervalCommitLog = \"1s\"\nbrokerName = \" x=\\\\\"\n"
	want := "# head\n\n# large\nmaxMessageSize=4194304\nhttp.listen=off\nflushIntervalCommitLog=1000\nbrokerName=\\ x=\\\\\n"
	got, err := ToProperties("x.toml", []byte(in))
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
}

func TestLint(t *testing.T) {
	for file, want := range map[string]string{
		"single-master.conf": "broker", "controller-n0.conf": "controller", "container.conf": "container", "namesrv.conf": "nameserver", "dledger-n1.conf": "broker",
	} {
		data, err := os.ReadFile("testdata/shapes/" + file)
		if err != nil {
			t.Fatal(err)
		}
		kind, isTOML, found, err := Lint(file, data, "")
		if err != nil || kind != want || isTOML || len(found) == 0 {
			t.Errorf("%s is the file of a %s: %v", file, kind, err)
		}
		problems := 0
		for _, s := range found {
			if s.Problem != "" {
				problems++
			}
		}
		if bad := want == "controller" || want == "container" || strings.HasPrefix(file, "dledger"); bad != (problems > 0) {
			t.Errorf("%s: %d problems: %+v", file, problems, found)
		}
	}
	_, _, found, err := Lint("x", []byte("brokerIp1=1.2.3.4\nlistenPort=x\nenableDLegerCommitLog=true\nserverWorkerThreads=9\nmapedFileSizeCommitLog=4096\nkvConfigPath=x\nbrokerName=a \n"), "broker")
	if err != nil {
		t.Fatal(err)
	}
	want := []FileSetting{
		{Class: ClassUnknown, Problem: "there is no such setting", Try: "brokerIP1", Line: 1},
		{Class: ClassSame, Problem: `"x" is no whole number`, Line: 2},
		{Class: ClassAbsent, Problem: "true is not possible: ", Line: 3},
		{Class: ClassNoEffect, Note: "no effect here: ", Line: 4},
		{Class: ClassOld, Note: "an old spelling of mappedFileSizeCommitLog", Try: "mappedFileSizeCommitLog", Line: 5},
		{Class: ClassForeign, Problem: "it is a setting of a nameserver, and this is the file of a broker", Line: 6},
		{Class: ClassSame, Note: "the value ends in blanks, which are not part of it", Line: 7},
	}
	for i, w := range want {
		g := found[i]
		if g.Class != w.Class || !strings.HasPrefix(g.Problem, w.Problem) || !strings.HasPrefix(g.Note, w.Note) || g.Try != w.Try || g.Line != w.Line ||
			w.Problem == "" && g.Problem != "" || w.Note == "" && g.Note != "" {
			t.Errorf("line %d: %+v\nwant %+v", i+1, g, w)
		}
	}
}

// TestCatalog: every setting of the classes is there, with a section that files
// may have.
func TestCatalog(t *testing.T) {
	count := map[string]int{}
	for _, b := range beanKeys {
		for _, k := range strings.Fields(b.keys) {
			count[b.bean]++
			found := CatalogOf(k)
			if !slices.ContainsFunc(found, func(c CatalogEntry) bool { return slices.Contains(c.Beans, b.bean) || b.bean != "BrokerConfig" }) || len(found) == 0 {
				t.Errorf("%s of %s is not in the catalog", k, b.bean)
			}
		}
	}
	for bean, n := range map[string]int{"BrokerConfig": 203, "MessageStoreConfig": 178, "NettyServerConfig": 18, "NamesrvConfig": 22, "AuthConfig": 26} {
		if count[bean] != n {
			t.Errorf("%s has %d settings, want %d", bean, count[bean], n)
		}
	}
	for _, e := range Catalog() {
		if e.Key.Text == "" || !isSection(e.Key.Section) || e.Key.Applies == "" {
			t.Errorf("%+v", e.Key)
		}
	}
}

// FuzzConvert: what can be converted means the same afterwards, both ways.
func FuzzConvert(f *testing.F) {
	f.Add("brokerName=b\n# c\nmaxMessageSize=4096\n")
	f.Add("[store]\nmaxMessageSize = \"4MiB\" # x\n[http]\nlisten=\"off\"\n")
	f.Add("a\\ b:c\\u0041\\\n  d\n!x\n")
	f.Fuzz(func(t *testing.T, text string) {
		var bad *ConfigError
		if out, err := ToTOML("x.conf", []byte(text)); err == nil {
			if _, _, _, err := Lint("x.toml", out, ""); err != nil && !errors.As(err, &bad) {
				t.Fatalf("%v\n%s", err, out)
			}
			if _, err := ToProperties("x.toml", out); err != nil && !errors.As(err, &bad) {
				t.Fatalf("%v\n%s", err, out)
			}
		}
		if _, err := ToProperties("x.toml", []byte(text)); err != nil && !errors.As(err, &bad) && !strings.Contains(err.Error(), "converted file") {
			t.Fatal(err)
		}
	})
}
