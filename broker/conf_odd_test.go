package broker

import (
	"maps"
	"slices"
	"testing"
)

// oddFiles are properties files in syntaxes that java.util.Properties takes, with what
// it reads out of them (blanks at the end and a mark of byte order left out).
var oddFiles = map[string]struct {
	text     string
	want     map[string]string
	comments []string
}{
	"byte order mark, CRLF": {"\xef\xbb\xbf# first\r\nbrokerName=b\r\nbrokerId = 1\r\n! other sign\r\n", map[string]string{"brokerName": "b", "brokerId": "1"}, []string{"# first", "# other sign"}},
	"carriage returns":      {"brokerName=b\rlistenPort=10911\r", map[string]string{"brokerName": "b", "listenPort": "10911"}, nil},
	"continuation lines": {"namesrvAddr=a:1;\\\n    b:2;\\\n\t\\\n c:3\nbrokerName=b\\\\\nbrokerId=1\n",
		map[string]string{"namesrvAddr": "a:1;b:2;c:3", "brokerName": `b\`, "brokerId": "1"}, nil},
	"comment with a continuation sign": {"# not continued \\\nbrokerName=b\n", map[string]string{"brokerName": "b"}, []string{`# not continued \`}},
	"escapes": {`regionId=\u4e2d\u56fd \= \: \# x\\y\q` + "\n" + `storePathRootDir=C\:\\mq\\data` + "\n" + `brokerName=a\tb\nc\fd\re` + "\n",
		map[string]string{"regionId": `中国 = : # x\yq`, "storePathRootDir": `C:\mq\data`, "brokerName": "a\tb\nc\fd\re"}, nil},
	"separators": {"brokerName b\nlistenPort:10911\n  brokerId \t = 1\nregionId\\ x=1\nmessageDelayLevel=1s 5s  \nnamesrvAddr\n",
		map[string]string{"brokerName": "b", "listenPort": "10911", "brokerId": "1", "regionId x": "1", "messageDelayLevel": "1s 5s", "namesrvAddr": ""}, nil},
	"Latin-1": {"# caf\xe9\nregionId=caf\xe9\n", map[string]string{"regionId": "café"}, []string{"# café"}},
	"UTF-8":   {"# 说明\nregionId=中文\n", map[string]string{"regionId": "中文"}, []string{"# 说明"}},
	"the last one counts": {"brokerName=a\n# between\nbrokerName=b\nbrokerName=c\n", map[string]string{"brokerName": "c"},
		[]string{"# between", `# set again below: brokerName = "a"`, `# set again below: brokerName = "b"`}},
	"unknown keys": {"a.b.c=1\n\"quoted\"=x\n[section]\nключ=да\nnumber=007\nflag=TRUE\nbig=99999999999999999999\n",
		map[string]string{"a.b.c": "1", `"quoted"`: "x", "[section]": "", "ключ": "да", "number": "007", "flag": "TRUE", "big": "99999999999999999999"}, nil},
	"no line feed at the end": {"brokerName=b\n# end", map[string]string{"brokerName": "b"}, []string{"# end"}},
	"signs of TOML": {"brokerName=a \"b\" 'c' # d\nregionId='''x\nnamesrvAddr=[1, 2]\nstorePathRootDir={}\n",
		map[string]string{"brokerName": `a "b" 'c' # d`, "regionId": "'''x", "namesrvAddr": "[1, 2]", "storePathRootDir": "{}"}, nil},
	"values as they were written": {"listenPort=+10911\nbrokerId=01\nslaveReadEnable=True\nfileReservedTime=1_000\nmaxMessageSize=0x10\nflushIntervalCommitLog=1.0\n",
		map[string]string{"listenPort": "+10911", "brokerId": "01", "slaveReadEnable": "True", "fileReservedTime": "1_000", "maxMessageSize": "0x10", "flushIntervalCommitLog": "1.0"}, nil},
	"nothing but comments": {"\n\n# a\n\n! b\n", map[string]string{}, []string{"# a", "# b"}},
}

// TestConvertOddSyntax: whatever the syntax, TOML and back says the same.
func TestConvertOddSyntax(t *testing.T) {
	for name, c := range oddFiles {
		first, _ := parseProperties(configText([]byte(c.text)))
		if got := settingsOf(first); !maps.Equal(got, c.want) {
			t.Errorf("%s: read as %q, want %q", name, got, c.want)
		}
		asTOML, err := ToTOML(name, []byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		back, err := ToProperties(name, asTOML)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, asTOML)
			continue
		}
		second, _ := parseProperties(configText(back))
		if got := settingsOf(second); !maps.Equal(got, c.want) {
			t.Errorf("%s: comes back as %q, want %q\n%s", name, got, c.want, asTOML)
		}
		if got := commentsOf(string(back)); !slices.Equal(got, c.comments) {
			t.Errorf("%s: comments come back as %q, want %q", name, got, c.comments)
		}
	}
}
