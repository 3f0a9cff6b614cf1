package cli

import (
	"errors"
	"strings"
	"unicode"
)

// aliasOf expands the first word of a line that no command answers to, by the
// section [alias] of the client file; nil when there is nothing to expand. A
// name of a command is never an alias, and an alias stands for no other alias.
func aliasOf(args []string, failed error, env func(string) string) []string {
	var m *Message
	if !errors.As(failed, &m) || m.Code != "UNKNOWN_COMMAND" {
		return nil
	}
	at := firstPlain(args)
	if at < 0 {
		return nil
	}
	f, err := loadClientFile(env)
	if err != nil {
		return nil // the line is unknown either way, and that is what is said
	}
	text, ok := f.Alias[args[at]]
	if !ok {
		return nil
	}
	words, err := splitWords(text)
	if err != nil || len(words) == 0 {
		return nil
	}
	out := append([]string{}, args[1:at]...)
	out = append(out, words...)
	return append(out, args[at+1:]...)
}

// firstPlain is the index of the first word that is neither a flag nor the
// value of a common flag before the command; -1 if there is none.
func firstPlain(args []string) int {
	v := vocabularyOf(&command{attrs: mutates}, false)
	for i := 1; i < len(args); i++ {
		if !strings.HasPrefix(args[i], "-") {
			return i
		}
		if o, _, has, err := v.find(args[i]); err == nil && o.value && !has {
			i++
		}
	}
	return -1
}

// splitWords cuts a line into words as a shell does: blanks separate, single
// and double quotes keep together, a backslash takes the next sign as it is
// (inside double quotes only before a quote or a backslash).
func splitWords(line string) ([]string, error) {
	var out []string
	var word strings.Builder
	inWord, quote, escape := false, rune(0), false
	for _, r := range line {
		switch {
		case escape:
			if quote == '"' && r != '"' && r != '\\' {
				word.WriteRune('\\')
			}
			word.WriteRune(r)
			escape = false
		case r == '\\' && quote != '\'':
			escape, inWord = true, true
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				word.WriteRune(r)
			}
		case r == '"' || r == '\'':
			quote, inWord = r, true
		case unicode.IsSpace(r):
			if inWord {
				out = append(out, word.String())
				word.Reset()
				inWord = false
			}
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	switch {
	case quote != 0:
		return nil, errors.New("a quote is not closed")
	case escape:
		return nil, errors.New("the line ends in a backslash")
	}
	if inWord {
		out = append(out, word.String())
	}
	return out, nil
}
