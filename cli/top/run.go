package top

import (
	"context"
	"errors"
	"os"

	tea "github.com/charmbracelet/bubbletea"
)

// Run shows the view on a terminal until the user leaves or ctx ends. The
// terminal is restored, and nothing is left that reads it.
func Run(ctx context.Context, o Options, in, out *os.File) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()                                                     // ends the requests of a refresh under way
	o.Raw = func(sequence string) { _, _ = out.WriteString(sequence) } // a terminal that has gone ends the program anyway
	p := tea.NewProgram(NewModel(ctx, o), tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithAltScreen(), tea.WithoutSignalHandler())
	_, err := p.Run()
	if errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil {
		return nil // the end by a signal: the caller knows which
	}
	return err
}
