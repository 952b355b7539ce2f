//! Starts the guest, reads its console, and always stops it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::image::Image;

/// Memory of the guest, in MiB.
const MEMORY: &str = "2048";

/// Minimum size of the disk with the commands, in bytes.
const COMMANDS: u64 = 65_536;

/// Kernel parameters: a serial console, no control groups v1, and a reboot (which ends the machine) on panic. A late
/// emulated timer on a busy host causes no panic.
const PARAMETERS: &str = "console=ttyS0 quiet loglevel=3 panic=-1 no_timer_check cgroup_no_v1=all";

/// The machine's process, killed on drop.
struct Machine(Child);

impl Drop for Machine {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs commands in the guest as root, for at most `time`, and passes each line of its console to `each`.
pub(super) fn run(
    image: &Image,
    commands: &str,
    time: Duration,
    each: &mut dyn FnMut(&str),
) -> Result<(), String> {
    let disk = write_commands(&image.folder, commands)?;
    let drive =
        |path: &Path, more: &str| format!("file={},if=virtio,format=raw{more}", path.display());
    let mut machine = Command::new("qemu-system-x86_64")
        .args([
            "-machine",
            "q35",
            "-accel",
            "tcg,thread=multi",
            "-cpu",
            "max",
        ])
        .args([
            "-smp",
            "2",
            "-m",
            MEMORY,
            "-nographic",
            "-no-reboot",
            "-nic",
            "none",
        ])
        .arg("-kernel")
        .arg(&image.kernel)
        .arg("-initrd")
        .arg(&image.initrd)
        .args(["-append", PARAMETERS])
        .args(["-drive", &drive(&image.root, ",snapshot=on")])
        .args(["-drive", &drive(&disk, "")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map(Machine)
        .map_err(|error| format!("cannot start qemu-system-x86_64: {error}"))?;
    let console = machine.0.stdout.take().expect("it is piped");
    let (sender, lines) = channel();
    // The thread ends with the machine, because it reads the machine's end of the pipe.
    let reader = std::thread::spawn(move || {
        let mut lines = BufReader::new(console).split(b'\n');
        while let Some(Ok(line)) = lines.next() {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            if sender.send(text).is_err() {
                break;
            }
        }
    });
    let deadline = Instant::now() + time;
    let ended = loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match lines.recv_timeout(left) {
            Ok(line) => each(after_controls(&line)),
            Err(RecvTimeoutError::Disconnected) => break Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                break Err(format!("the guest was killed after {} s", time.as_secs()));
            }
        }
    };
    drop(machine);
    let _ = reader.join();
    let _ = std::fs::remove_file(&disk);
    ended
}

/// Removes the firmware's screen control sequences, which precede the first line.
fn after_controls(line: &str) -> &str {
    let start = ["GUEST ", "CHECK ", "DOCTOR "]
        .iter()
        .filter_map(|word| line.find(word))
        .min();
    match start {
        Some(start) if line.starts_with('\u{1b}') => &line[start..],
        _ => line,
    }
}

fn write_commands(folder: &Path, commands: &str) -> Result<PathBuf, String> {
    let path = folder.join(format!("commands-{}.img", std::process::id()));
    let write = || -> std::io::Result<()> {
        std::fs::write(&path, commands)?;
        let file = std::fs::File::options().write(true).open(&path)?;
        file.set_len(COMMANDS.max(commands.len() as u64).next_multiple_of(512))
    };
    write().map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_firmware_writes_before_a_line_is_left_out() {
        assert_eq!(after_controls("\u{1b}c\u{1b}[2JGUEST up"), "GUEST up");
        assert_eq!(after_controls("CHECK a b ok"), "CHECK a b ok");
        assert_eq!(after_controls("a GUEST "), "a GUEST ");
    }
}
