package enginetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sbxhost/sbxhost/shared"
)

// hostTerminal gives a command a terminal, resizes it, and types ^C.
func hostTerminal(ctx context.Context, b *bench) error {
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	t, err := openTerminal()
	if err != nil {
		return err
	}
	defer t.close()
	if err := t.resize(24, 80); err != nil {
		return err
	}
	cmd := b.command("size")
	cmd.TTY = true
	p, err := sandbox.Start(ctx, cmd, shared.Stdio{Stdin: t.slave, Stdout: t.slave, Stderr: t.slave})
	if err != nil {
		return err
	}
	if err := b.expect(t, "ready 24x80"); err != nil {
		return err
	}
	if err := t.resize(30, 100); err != nil {
		return err
	}
	if err := b.expect(t, "24x80 30x100"); err != nil {
		return err
	}
	if _, err := p.Wait(ctx); err != nil {
		return err
	}
	// Job control: what is typed reaches the command as a signal.
	cmd = b.sh("test -t 0 && test -t 1 && test -t 2 && : </dev/tty && trap 'exit 9' INT && echo typing" + forever)
	cmd.TTY = true
	if p, err = sandbox.Start(ctx, cmd, shared.Stdio{Stdin: t.slave, Stdout: t.slave, Stderr: t.slave}); err != nil {
		return err
	}
	if err := b.expect(t, "typing"); err != nil {
		return err
	}
	if _, err := t.master.Write([]byte{3}); err != nil {
		return err
	}
	r, err := p.Wait(ctx)
	if err == nil && r.Status.Code != 9 {
		err = fmt.Errorf("^C: it ended with %v", r.Status)
	}
	return err
}

// expect reads what is shown until a text is.
func (b *bench) expect(t *terminal, want string) error {
	t.master.SetReadDeadline(time.Now().Add(b.patience()))
	var shown strings.Builder
	buf := make([]byte, 256)
	for !strings.Contains(shown.String(), want) {
		n, err := t.master.Read(buf)
		shown.Write(buf[:n])
		if err != nil {
			return fmt.Errorf("the terminal does not show %q but %q: %w", want, shown.String(), err)
		}
	}
	return nil
}

// ownTerminal has the engine make a terminal, resizes it, and types ^C.
func ownTerminal(ctx context.Context, b *bench) error {
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	inR, inW, err := b.pipe()
	if err != nil {
		return err
	}
	outR, outW, err := b.pipe()
	if err != nil {
		return err
	}
	shown := &lines{outR, bufio.NewReader(outR), b.patience()}
	cmd := b.sh("test -t 0 && test -t 1 && test -t 2 && : </dev/tty && trap 'exit 9' INT && trap 'stty size; echo end' WINCH && echo ready" + forever)
	cmd.TTY = true
	p, err := sandbox.Start(ctx, cmd, shared.Stdio{Stdin: inR, Stdout: outW, Stderr: outW})
	inR.Close()
	outW.Close()
	if err != nil {
		return err
	}
	for _, step := range []struct{ until, want string }{{"ready", "ready"}, {"end", "31 101"}} {
		var text string
		for !strings.Contains(text, step.until) {
			line, err := shown.next()
			if text += line; err != nil {
				return fmt.Errorf("the terminal does not show %q but %q: %w", step.until, text, err)
			}
		}
		if !strings.Contains(text, step.want) {
			return fmt.Errorf("the terminal shows %q, without %q", text, step.want)
		}
		if step.until == "ready" {
			if err := p.Resize(ctx, shared.TerminalSize{Rows: 31, Cols: 101}); err != nil {
				return fmt.Errorf("resizing: %w", err)
			}
		}
	}
	if _, err := inW.Write([]byte{3}); err != nil {
		return err
	}
	r, err := p.Wait(ctx)
	if err == nil && r.Status.Code != 9 {
		err = fmt.Errorf("^C: it ended with %v", r.Status)
	}
	return err
}

func resize(ctx context.Context, b *bench) error {
	if b.suite.info.Features.Has(shared.FeatureTTYEngine) {
		return &absentError{"the engine owns the terminal"}
	}
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	p, err := sandbox.Start(ctx, b.sh("exec sleep 60"), shared.Stdio{})
	if err != nil {
		return err
	}
	err = wantKind("Resize", p.Resize(ctx, shared.TerminalSize{Rows: 24, Cols: 80}), shared.ErrUnsupported)
	_, waitErr := p.Wait(endNow(ctx, p))
	return errors.Join(err, waitErr)
}
