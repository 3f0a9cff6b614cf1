package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCompletionOfShells presses Tab in the shells that the completion scripts are for.
func TestCompletionOfShells(t *testing.T) {
	t.Parallel()
	shells := []struct{ name, start, load string }{
		{"bash", "PS1=live: exec bash --norc --noprofile -i", "source <(mqctl completion bash)"},
		{"zsh", "PS1=live: exec zsh -f -i", "autoload -Uz compinit; compinit -u; source <(mqctl completion zsh)"},
		{"fish", "exec fish --no-config -i", "function fish_prompt; echo live:; end; mqctl completion fish | source"},
	}
	cases := []struct{ typed, becomes string }{
		{"mqctl gro", "mqctl group"},
		{"mqctl -n 127.0.0.1:1 group se", "mqctl -n 127.0.0.1:1 group set"},
		{"mqctl group --namesrv=127.0.0.1:1 se", "mqctl group --namesrv=127.0.0.1:1 set"},
		{"mqctl cluster list --color=al", "mqctl cluster list --color=always"},
		{"mqctl cluster list --color al", "mqctl cluster list --color always"},
		{"mqctl updateSubGroup --whichB", "mqctl updateSubGroup --whichBrokerWhenConsumeSlowly"},
		{"mqctl broker start -c a-brok", "mqctl broker start -c a-broker.conf"},
	}
	for _, sh := range shells {
		t.Run(sh.name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(sh.name); err != nil {
				t.Skip(sh.name + " is not installed")
			}
			p := newPane(t, 100, 30)
			if err := os.WriteFile(filepath.Join(p.dir, "a-broker.conf"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			p.line(sh.start)
			p.line(sh.load + "; echo loa''ded")
			p.until("that the script is loaded", func(screen string) bool { return strings.Contains(screen, "\nloaded") })
			for _, c := range cases {
				p.keys("C-l")
				p.text(c.typed)
				p.keys("Tab")
				p.until(c.becomes, func(screen string) bool { return strings.Contains(screen, "live:"+c.becomes) })
				p.keys("C-u")
			}
		})
	}
}
