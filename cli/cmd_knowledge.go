package cli

import (
	"context"
	"fmt"
	"strings"
)

// schemaItem is one schema of the binary.
type schemaItem struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

func knowledgeCommands() []*command {
	return []*command{
		explainCommand(),
		{
			path: "version", summary: "version of this program", attrs: local, schema: "mqctl.version/v1", run: runVersion,
			examples: []string{"mqctl version", "mqctl version -o json"},
			view: view{item: versionItem{}, name: func(item any) string { return item.(versionItem).Version }, columns: []column{
				{head: "VERSION", field: "version"}, {head: "COMMIT", field: "commit"}, {head: "GO", field: "go"}, {head: "OS", field: "os"}, {head: "ARCH", field: "arch"},
			}},
		},
		{
			path: "completion", summary: "completion script of a shell", args: "bash|zsh|fish|powershell", min: 1, max: 1, argFrom: "shell", attrs: local, run: runCompletion,
			examples: []string{"source <(mqctl completion bash)", "mqctl completion zsh > \"${fpath[1]}/_mqctl\"", "mqctl completion fish > ~/.config/fish/completions/mqctl.fish", "mqctl completion powershell > mqctl.ps1"},
		},
		{
			path: "schema list", summary: "names of the JSON schemas", attrs: local, schema: "mqctl.schema.list/v1", run: runSchemaList,
			examples: []string{"mqctl schema list", "mqctl schema list -o name"},
			view: view{item: schemaItem{}, name: func(item any) string { return item.(schemaItem).Name }, columns: []column{
				{head: "NAME", field: "name"}, {head: "VERSION", field: "version"},
			}},
		},
		{
			path: "schema show", summary: "one JSON schema", args: "NAME", min: 1, max: 1, argFrom: "schema", attrs: local, exits: []int{ExitNotFound}, run: runSchemaShow,
			examples: []string{"mqctl schema show mqctl.stats.offsets/v1"},
		},
	}
}

func runVersion(_ context.Context, c *call) (*result, error) {
	v := versionOf()
	r := &result{items: []any{v}}
	if c.p.format == "table" && len(c.p.fields) == 0 {
		r.text = []string{"mqctl " + v.Version}
	}
	return r, nil
}

func runSchemaList(_ context.Context, _ *call) (*result, error) {
	r := &result{}
	for _, n := range schemaNames() {
		_, v, _ := strings.Cut(n, "/")
		r.add(schemaItem{Name: n, Version: v})
	}
	return r, nil
}

func runSchemaShow(_ context.Context, c *call) (*result, error) {
	b := schemaOf(c.arg(0))
	if b == nil {
		return nil, fail(ExitNotFound, "SCHEMA_NOT_FOUND", "there is no schema %q", c.arg(0)).try(nearest(c.arg(0), schemaNames())...)
	}
	return &result{raw: b}, nil
}

func runCompletion(_ context.Context, c *call) (*result, error) {
	script, ok := completionScripts[c.arg(0)]
	if !ok {
		return nil, usage("BAD_VALUE", "there is no completion for the shell %q", c.arg(0)).because("bash, zsh, fish and powershell have one")
	}
	return &result{raw: []byte(script)}, nil
}

// completionScripts hand the words to "mqctl __complete", which answers one
// candidate a line: the word, a tab, its description.
var completionScripts = map[string]string{
	"bash": `# bash completion of mqctl
_mqctl() {
    local IFS=$'\n' line cur typed word rest="$COMP_LINE"
    local words=()
    # readline splits words at ':' and '=' too: put together what stands without a blank between
    for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
        if [[ ${#words[@]} -gt 0 && -n "$word" && "$rest" == "$word"* ]]; then
            words[${#words[@]}-1]+="$word"
        else
            words+=("$word")
        fi
        rest="${rest#*"$word"}"
    done
    cur="${words[${#words[@]}-1]}"
    typed="${cur%"${cur##*[:=]}"}" # and offer only what follows the last of them
    COMPREPLY=()
    while read -r line; do
        line="${line%%$'\t'*}"
        line="${line#"$typed"}"
        [[ -n "$line" ]] && COMPREPLY+=("$(printf '%q' "$line")")
    done < <("${words[0]}" __complete -- "${words[@]:1}" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 0 ]]; then COMPREPLY=($(compgen -f -- "${cur#"$typed"}")); fi
}
complete -F _mqctl mqctl mqadmin
`,
	"zsh": `#compdef mqctl mqadmin
_mqctl() {
    local -a candidates
    local line word text
    while IFS= read -r line; do
        word="${${line%%$'\t'*}//:/\\:}" text="${line#*$'\t'}"
        candidates+=("$word${text:+:$text}")
    done < <("${words[1]}" __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( ${#candidates} )); then
        _describe -V 'mqctl' candidates
    else
        _files
    fi
}
compdef _mqctl mqctl mqadmin
`,
	"fish": `# fish completion of mqctl
function __mqctl_complete
    set -l tokens (commandline -opc) (commandline -ct)
    set -l found ($tokens[1] __complete -- $tokens[2..-1] 2>/dev/null)
    if set -q found[1]
        string join \n -- $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c mqctl -f -a '(__mqctl_complete)'
complete -c mqadmin -f -a '(__mqctl_complete)'
`,
	"powershell": `# PowerShell completion of mqctl
Register-ArgumentCompleter -Native -CommandName mqctl, mqadmin -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | Where-Object { $_.Extent.StartOffset -lt $cursorPosition } | ForEach-Object { $_.ToString() })
    $name = $words[0]
    $words = @($words | Select-Object -Skip 1)
    if ($wordToComplete -eq '') { $words += '' }
    & $name __complete -- @words 2>$null | ForEach-Object {
        $word, $text = $_ -split "\t", 2
        if (-not $text) { $text = $word }
        [System.Management.Automation.CompletionResult]::new($word, $word, 'ParameterValue', $text)
    }
}
`,
}

// describe is one candidate line.
func describe(word, text string) string { return fmt.Sprintf("%s\t%s\n", word, text) }
