package cli

// clientFileHelp explains the client file.
func clientFileHelp() string {
	return `client file   $MQCTL_CONFIG, else $XDG_CONFIG_HOME/mqctl/config.toml, else ~/.config/mqctl/config.toml

  current = "prod"                      the context that commands work in; --context and MQCTL_CONTEXT choose another

  [defaults]                            of flags; a flag, the environment and a context come before
  output = "table"                      table wide json jsonl csv name; never changes the layout of camel-case names
  timeout = "5s"                        one request
  units = "auto"                        auto bytes
  time = "relative"                     relative local utc
  color = "auto"                        auto always never
  confirm = "impact"                    impact: y/N with a summary; name: type the name; never
  audit = true
  audit_file = ""                       empty: ~/.local/state/mqctl/audit.jsonl
  history = 2000                        lines kept by the shell, 0 keeps none
  completion_timeout = "300ms"
  log_level = "warn"

  [context.prod]
  namesrv = ["10.0.0.4:9876", "10.0.0.5:9876"]
  cluster = "DefaultCluster"
  protected = true                      confirmations ask for the typed name
  accent = "red"                        colour of the prompt
  read_only = false                     true: every change is refused with exit 8
  access_key = "env:MQ_AK"              plain, env:NAME or file:PATH; a program is never started to print a key
  secret_key = "file:/run/secrets/mq_sk"
  output = ""
  timeout = ""

  [context.prod.tls]
  enable = false                        with ca, cert, key, server_name and skip_verify

  [alias]                               first word of a line that no command has
  slow = "group set --slow-broker 1"

  [top]
  refresh = "1s"
  panel = "brokers"

With -n, MQCTL_NAMESRV or NAMESRV_ADDR naming other nameservers, the current context is left out: its cluster,
keys and protection say nothing about those.

  mqctl context add prod --namesrv 10.0.0.4:9876,10.0.0.5:9876 --cluster DefaultCluster --protected
  mqctl config show --origin
`
}
