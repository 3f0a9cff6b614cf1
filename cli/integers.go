package cli

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// textIntegers is --json-int string: every whole number of a JSON text becomes a
// string, so that programs whose numbers have 53 bits round none.
func textIntegers(doc []byte) []byte {
	out := make([]byte, 0, len(doc)+len(doc)/8)
	for i := 0; i < len(doc); {
		switch b := doc[i]; {
		case b == '"':
			end := i + 1
			for end < len(doc) && doc[end] != '"' {
				if doc[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end+1, len(doc))
			out = append(out, doc[i:end]...)
			i = end
		case b == '-' || b >= '0' && b <= '9':
			end := i + 1
			for end < len(doc) && strings.IndexByte("0123456789+-.eE", doc[end]) >= 0 {
				end++
			}
			number := doc[i:end]
			if whole := !strings.ContainsAny(string(number), ".eE"); whole {
				out = strconv.AppendQuote(out, string(number))
			} else {
				out = append(out, number...)
			}
			i = end
		default:
			out = append(out, b)
			i++
		}
	}
	return out
}

// checkSchemaVersion refuses a version of the output that this program does not
// write. Every schema has one version until its meaning has to change.
func (c *call) checkSchemaVersion() error {
	if !c.given("schema-version") {
		return nil
	}
	name, version, _ := strings.Cut(c.cmd.schema, "/v")
	asked := strings.TrimPrefix(c.str("schema-version"), "v")
	switch {
	case name == "":
		return usage("NO_SCHEMA", "%s prints no JSON", c.cmd.name(c.old))
	case asked != version:
		return usage("BAD_VALUE", "%s has no version %q", name, asked).because("its version is %s; nothing was sent", version).try("--schema-version " + version)
	}
	return nil
}

// page shows a text through the program that MQCTL_PAGER names: only tables, only
// on a terminal, and only because the user's own environment says so.
func (p *printer) page(program string, text []byte) error {
	out, ok := p.out.(*os.File)
	if !ok || len(text) == 0 {
		p.write(text)
		return nil
	}
	cmd := exec.Command("/bin/sh", "-c", program)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(string(text)), out, p.err
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil || errors.As(err, &exit) && exit.ExitCode() != 126 && exit.ExitCode() != 127:
		return nil // whatever the reader did with it
	default:
		p.write(text)
		return warningError("MQCTL_PAGER", program, err)
	}
}

// warningError says that a helper could not be started; the result was shown.
func warningError(name, program string, err error) error {
	return fail(ExitOK, "NOT_STARTED", "%s=%s cannot be started: %v", name, program, err)
}
