// Package shell is mqctl's interactive shell and its script runner: the
// language, the line editors, the history and the loop around them. It knows no
// command of the registry: those are run by a Host.
//
// A line passes Parse, which makes a list of commands joined by ; && and ||;
// the session expands variables when a command's turn comes, looks for a
// built-in and hands everything else to the Host. "| jq" and "!CMD" start
// programs, from nothing but what the user has typed or put into a script.
//
// Goroutines: those of the line editor on a terminal (chzyer/readline's own,
// ended by Close), and one of the session that asks for the role and the gap of
// the prompt, ended when Interact returns.
package shell
