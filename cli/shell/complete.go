package shell

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// completeTime bounds what Tab waits for.
const completeTime = 300 * time.Millisecond

// complete is the Completer of the session.
func (s *Session) complete(ctx context.Context, line string, pos int) (int, []Candidate) {
	words, begin, raw := lastCommand(line[:pos])
	typed := words[len(words)-1]
	switch {
	case raw:
		return begin, files(typed)
	case len(words) > 1 && words[0] == "source":
		return begin, files(typed)
	}
	if len(words) > 1 {
		words = commandWords(words)
	}
	var out []Candidate
	if len(words) == 1 {
		for _, b := range Builtins() {
			if strings.HasPrefix(b.Word, typed) {
				out = append(out, b)
			}
		}
		for name, text := range s.aliases {
			if strings.HasPrefix(name, typed) {
				out = append(out, Candidate{Word: name, Text: text})
			}
		}
	} else if own := s.ownWords(words); own != nil {
		return begin, own
	}
	ctx, cancel := context.WithTimeout(ctx, completeTime)
	defer cancel()
	return begin, append(out, s.o.Host.Complete(ctx, s.translated(words), s.streams())...)
}

// translated lets the arguments of built-ins be completed as those of the
// command that means the same thing.
func (s *Session) translated(words []string) []string {
	words = unprefixed(words)
	switch {
	case words[0] == "use" && len(words) == 3 && words[1] == "broker":
		return []string{"stats", "ha", "--broker", words[2]}
	case words[0] == "use" && len(words) == 3 && words[1] == "group":
		return []string{"group", "get", words[2]}
	case words[0] == "set" && len(words) == 3:
		return []string{"cluster", "list", "--" + words[1], words[2]}
	case len(words) > 1 && (words[0] == "help" || words[0] == "?"):
		return words[1:]
	}
	if text, ok := s.aliases[words[0]]; ok {
		return append(strings.Fields(text), words[1:]...)
	}
	return words
}

// ownWords completes the first argument of built-ins.
func (s *Session) ownWords(words []string) []Candidate {
	var all []string
	switch {
	case len(words) == 2 && words[0] == "use":
		all = []string{"broker", "group"}
	case len(words) == 2 && words[0] == "set":
		all = append(s.settings(), "-e", "+e")
	default:
		return nil
	}
	var out []Candidate
	for _, w := range all {
		if strings.HasPrefix(w, words[1]) {
			out = append(out, Candidate{Word: w})
		}
	}
	return out
}

// lastCommand finds the words of the command that the text ends in; the last one
// may be empty. begin is where it begins in the text. raw: it is no word of a
// command but a file behind > or a text for the system's shell.
func lastCommand(text string) (words []string, begin int, raw bool) {
	p := &parser{s: text, line: 1}
	start := true
	for {
		for p.at < len(text) && (text[p.at] == ' ' || text[p.at] == '\t') {
			p.at++
		}
		begin = p.at
		if p.at >= len(text) {
			return append(words, ""), begin, raw
		}
		switch c := p.peek(); {
		case c == ';' || p.has("&&") || p.has("||"):
			p.at++
			if c != ';' {
				p.at++
			}
			words, raw, start = nil, false, true
			continue
		case c == '|' || c == '>' || c == '!' && start:
			p.at++
			words, raw = nil, true
			continue
		case c == '&' || c == '<' || c == '\n':
			p.at++
			continue
		}
		start = false
		w, err := p.word()
		if err != nil { // an open quote: complete what is behind it
			return append(words, strings.Trim(text[begin:], `'"`)), begin, raw
		}
		word := w.Text(func(string) string { return "" })
		words = append(words, word)
		if p.at >= len(text) {
			return words, begin, raw
		}
	}
}

// files are the files that begin so.
func files(typed string) []Candidate {
	dir, base := filepath.Split(typed)
	from := dir
	if from == "" {
		from = "."
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return nil
	}
	var out []Candidate
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, base) || strings.HasPrefix(name, ".") && !strings.HasPrefix(base, ".") {
			continue
		}
		if e.IsDir() {
			name += "/"
		}
		out = append(out, Candidate{Word: dir + name})
	}
	return out
}
