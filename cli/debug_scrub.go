package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"os"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"
)

// scrubber takes secrets out of what goes into a bundle: values whose key says that
// they are secrets, and wherever they stand the values that were found so and the
// keys that this run signs with. Strict also replaces addresses and the names of
// machines, the same one always by the same word, so that what belongs together can
// still be seen.
//
// It is for one goroutine.
type scrubber struct {
	strict  bool
	secrets []string // in every spelling, the longest first
	hosts   map[string]string
	order   []string // hosts, the longest first
}

const scrubbed = "(redacted)"

// shortestSecret keeps words like "on" from being cut out of everything.
const shortestSecret = 4

func newScrubber(strict bool) *scrubber {
	s := &scrubber{strict: strict, hosts: map[string]string{}}
	if name, err := os.Hostname(); err == nil && strict {
		s.host(name)
	}
	return s
}

// learn notes a secret. Values like {"username":"a","password":"b"}, which RocketMQ
// has in some settings, are several.
func (s *scrubber) learn(secret string) {
	secret = strings.TrimSpace(secret)
	var parts map[string]any
	if json.Unmarshal([]byte(secret), &parts) == nil {
		for _, v := range parts {
			if text, ok := v.(string); ok {
				s.learn(text)
			}
		}
	}
	if len(secret) < shortestSecret || secret == scrubbed || secret == hiddenValue || secret == "true" || secret == "false" {
		return
	}
	quoted, err := marshal(secret)
	if err != nil {
		return
	}
	raw := []byte(secret)
	for _, text := range []string{
		secret, string(quoted[1 : len(quoted)-1]), strings.ReplaceAll(secret, `\`, `\\`), url.QueryEscape(secret), url.PathEscape(secret),
		base64.StdEncoding.EncodeToString(raw), base64.RawStdEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw),
	} {
		s.secrets = appendNew(s.secrets, text)
	}
	sort.SliceStable(s.secrets, func(i, j int) bool { return len(s.secrets[i]) > len(s.secrets[j]) })
}

// learnFrom notes the secrets of settings.
func (s *scrubber) learnFrom(settings map[string]string) {
	for k, v := range settings {
		if secretWord(k) && !strings.HasSuffix(strings.ToLower(k), "file") {
			s.learn(v)
		}
	}
}

// host notes the name of a machine.
func (s *scrubber) host(name string) string {
	if word, ok := s.hosts[name]; ok || name == "" {
		return word
	}
	word := "host-" + strconv.Itoa(len(s.hosts)+1)
	s.hosts[name] = word
	s.order = append(s.order, name)
	sort.SliceStable(s.order, func(i, j int) bool { return len(s.order[i]) > len(s.order[j]) })
	return word
}

var (
	// secretPair is key=value or key: value of a key that holds a secret, in text.
	secretPair = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)((?:[\w.\-]*(?:password|passwd|secret|access[_-]?key|token|credential|authenticationuser)[\w.\-]*)["']?\s*[=:]\s*)("(?:[^"\\]|\\.)*"|'[^']*'|\{[^}\n]*\}?|[^\s,;}&"']+)`)
	})
	ipv4 = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\b(?:\d{1,3}\.){3}\d{1,3}\b`)
	})
	ipv6 = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[\w]+)?\]`)
	})
)

// text cleans what is no JSON document.
func (s *scrubber) text(b []byte) []byte {
	b = secretPair().ReplaceAll(b, []byte("${1}"+scrubbed))
	return s.literals(b)
}

// literals replaces what is known, wherever it stands.
func (s *scrubber) literals(b []byte) []byte {
	for _, secret := range s.secrets {
		b = bytes.ReplaceAll(b, []byte(secret), []byte(scrubbed))
	}
	if !s.strict {
		return b
	}
	for _, name := range s.order {
		if ipv4().MatchString(name) {
			continue
		}
		b = bytes.ReplaceAll(b, []byte(name), []byte(s.hosts[name]))
	}
	swap := func(addr []byte) []byte { return []byte(s.host(string(addr))) }
	return ipv6().ReplaceAllFunc(ipv4().ReplaceAllFunc(b, swap), swap)
}

// document is v as JSON without secrets.
func (s *scrubber) document(v any) ([]byte, error) {
	b, err := marshal(v)
	if err != nil {
		return nil, err
	}
	clean, err := s.walkJSON(b)
	if err != nil {
		return nil, err
	}
	return marshalIndent(clean)
}

// line is one JSON object of a log; what cannot be read as one is cleaned as text.
func (s *scrubber) line(b []byte) []byte {
	clean, err := s.walkJSON(b)
	if err != nil {
		return s.text(b)
	}
	out, err := marshal(clean)
	if err != nil {
		return s.text(b)
	}
	return out
}

func (s *scrubber) walkJSON(b []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	return s.walk(v), nil
}

func (s *scrubber) walk(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			text, isText := x.(string)
			switch {
			case isText && text != "" && secretWord(k):
				out[string(s.literals([]byte(k)))] = scrubbed
			default:
				out[string(s.literals([]byte(k)))] = s.walk(x)
			}
		}
		return out
	case []any:
		for i := range v {
			v[i] = s.walk(v[i])
		}
		return v
	case string:
		return string(s.text([]byte(v)))
	}
	return v
}
