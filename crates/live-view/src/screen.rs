//! Takes over the terminal, draws on it, and restores it when the view ends, even after a panic.

use std::io::{self, Stderr, stderr};
use std::sync::Once;

use fathometer_sys::terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Hide;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::EnterAlternateScreen;
use ratatui::{Frame, Terminal};

/// The sequence that shows the cursor and leaves the alternate screen (DECTCEM and mode 1049).
const RESTORE_SEQUENCE: &[u8] = b"\x1b[?25h\x1b[?1049l";

/// A terminal that the view uses. The terminal is restored on drop.
#[derive(Debug)]
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stderr>>,
}

impl Screen {
    pub(super) fn enter() -> io::Result<Screen> {
        restore_on_panic();
        terminal::take(RESTORE_SEQUENCE).map_err(io::Error::other)?;
        let entered = execute!(stderr(), EnterAlternateScreen, Hide)
            .and_then(|()| Terminal::new(CrosstermBackend::new(stderr())));
        match entered {
            Ok(terminal) => Ok(Screen { terminal }),
            Err(error) => {
                terminal::restore();
                Err(error)
            }
        }
    }

    pub(super) fn draw(&mut self, render: impl FnOnce(&mut Frame<'_>)) {
        // The panic of another thread may have restored the terminal.
        if terminal::is_taken() {
            // If the terminal is closed, drawing fails, and the test continues without it.
            let _ = self.terminal.draw(render);
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        terminal::restore();
    }
}

/// Restores the terminal before the message of a panic is printed, because the message would be lost with the
/// alternate screen.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            terminal::restore();
            print(panic);
        }));
    });
}
